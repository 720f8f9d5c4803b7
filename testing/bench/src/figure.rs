//! Figures: measured values with their targets, printed as a table or as JSON lines.

use anyhow::{Context as _, Result};
use serde::Serialize;

/// One measured value with its target.
#[derive(Serialize)]
pub(crate) struct Figure {
    /// Name of the measured quantity.
    pub(crate) name: String,
    /// Measured value, in `unit`.
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    /// Target in words, such as `at least 60`; empty when there is none.
    pub(crate) target: &'static str,
    /// Conditions of the measurement: number of messages, runs, spread.
    pub(crate) how: String,
}

/// Returns the value at a percentile (0 to 100) of a sorted list.
pub(crate) fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let index = (sorted.len().saturating_sub(1) * percent).div_ceil(100);
    sorted.get(index).copied().unwrap_or(f64::NAN)
}

/// Returns the processor time of this process as counted by the kernel, in seconds.
pub(crate) fn cpu_seconds() -> Result<f64> {
    let mut nanoseconds = 0.0;
    for task in std::fs::read_dir("/proc/self/task")? {
        let text = std::fs::read_to_string(task?.path().join("schedstat"))?;
        let running = text.split_whitespace().next().context("schedstat is empty")?;
        nanoseconds += running.parse::<f64>()?;
    }
    Ok(nanoseconds / 1e9)
}

/// Prints figures as a table, or as JSON lines.
pub(crate) fn print(figures: &[Figure], json: bool) -> Result<()> {
    for figure in figures {
        if json {
            println!("{}", serde_json::to_string(figure)?);
        } else {
            let target = if figure.target.is_empty() {
                String::new()
            } else {
                format!("(target: {})", figure.target)
            };
            println!(
                "{:<44} {:>14} {:<12} {target}",
                figure.name,
                formatted(figure.value),
                figure.unit
            );
            println!("    {}", figure.how);
        }
    }
    Ok(())
}

/// Part of a suite that could not be measured.
#[derive(Serialize)]
pub(crate) struct SkippedPart {
    /// Name of the part.
    pub(crate) name: &'static str,
    /// Reason, and what to do about it.
    #[serde(rename = "left_out")]
    pub(crate) why: String,
}

/// Prints all figures in one table, then the parts that were not measured; as JSON only the latter.
pub(crate) fn summary(figures: &[Figure], skipped: &[SkippedPart], json: bool) -> Result<()> {
    if json {
        for one in skipped {
            println!("{}", serde_json::to_string(one)?);
        }
        return Ok(());
    }
    let width = figures.iter().map(|figure| figure.name.chars().count()).max().unwrap_or_default();
    println!("\n{:<width$} {:>12} {:<10} target", "measured", "", "");
    for Figure { name, value, unit, target, .. } in figures {
        println!("{name:<width$} {:>12} {unit:<10} {target}", formatted(*value));
    }
    for SkippedPart { name, why } in skipped {
        println!("{name:<width$} {:>12} {why}", "NOT measured");
    }
    Ok(())
}

/// Formats a value with separated thousands, or with three decimals when it is small.
fn formatted(value: f64) -> String {
    if value.abs() < 100.0 {
        return format!("{value:.3}");
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) && digit.is_ascii_digit() {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
