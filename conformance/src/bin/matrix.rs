//! Prints what came of a run of the suites, from the folder it wrote to; with `--record` also keeps it
//! with the sources. Called by `cargo xtask test`.

use std::path::PathBuf;
use std::process::ExitCode;

use punctual_conformance::transport::Matrix;

#[allow(clippy::print_stdout, clippy::print_stderr)] // it speaks to whoever runs it
fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(folder) = arguments.next().map(PathBuf::from) else {
        eprintln!("usage: matrix <folder of results> [--record]");
        return ExitCode::FAILURE;
    };
    let printed = Matrix::of_run(&folder).and_then(|matrix| {
        print!("{}", matrix.summary());
        if arguments.next().as_deref() == Some("--record") {
            println!("recorded: {}", matrix.record()?.join(", "));
        }
        Ok(())
    });
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the results in {} cannot be read: {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}
