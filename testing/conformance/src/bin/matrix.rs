//! Matrix of results: prints the results of a run of the suites from its results folder. With `--record` it
//! stores them with the sources, else it fails when they differ from the stored ones. Called by `cargo xtask test`.

use std::path::PathBuf;
use std::process::ExitCode;

use punctual_conformance::transport::Matrix;

#[allow(clippy::print_stdout, clippy::print_stderr)] // a command-line program
fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(folder) = arguments.next().map(PathBuf::from) else {
        eprintln!("usage: matrix <folder of results> [--record]");
        return ExitCode::FAILURE;
    };
    let record = arguments.next().as_deref() == Some("--record");
    let printed = Matrix::of_run(&folder).and_then(|matrix| {
        print!("{}", matrix.summary());
        if record {
            println!("recorded: {}", matrix.record()?.join(", "));
        }
        Ok(matrix.differences(&Matrix::of_sources()?))
    });
    match printed {
        Ok(differences) if differences.is_empty() => ExitCode::SUCCESS,
        Ok(differences) => {
            for difference in differences {
                eprintln!("{difference}");
            }
            eprintln!(
                "docs/capabilities.md differs: run `cargo xtask test --record`, then `cargo xtask generate`"
            );
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("the results in {} cannot be read: {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}
