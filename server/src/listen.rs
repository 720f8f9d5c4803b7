//! The socket: binds, serves until told to stop, and lets requests under way end.

use std::net::SocketAddr;

use axum::Router;
use punctual::{Error, Result};
use tokio::net::TcpListener;

/// A bound socket that does not serve yet.
pub struct Listening {
    listener: TcpListener,
    address: SocketAddr,
}

/// Binds an address.
pub async fn listen(address: SocketAddr) -> Result<Listening> {
    let listener = TcpListener::bind(address).await.map_err(|error| {
        let way_out = match error.kind() {
            std::io::ErrorKind::AddrInUse => "another program listens there; choose another port",
            std::io::ErrorKind::PermissionDenied => {
                "ports below 1024 need a privilege; choose another one"
            }
            _ => "check the address",
        };
        Error::unavailable(format!("cannot listen on {address}: {way_out}")).caused_by(error)
    })?;
    let address = listener.local_addr().map_err(|error| {
        Error::internal("a bound socket does not know its address").caused_by(error)
    })?;
    Ok(Listening { listener, address })
}

impl Listening {
    /// Where it listens; the port that was found when none was named.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the signal, then until the requests under way have ended.
    pub async fn serve(
        self,
        router: Router,
        signal: impl Future<Output = ()> + Send + 'static,
    ) -> Result<()> {
        let service = router.into_make_service_with_connect_info::<SocketAddr>();
        axum::serve(self.listener, service)
            .with_graceful_shutdown(signal)
            .await
            .map_err(|error| Error::unavailable("the socket failed").caused_by(error))
    }
}
