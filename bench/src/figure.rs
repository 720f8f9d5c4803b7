//! A measured figure and how it is shown.

use anyhow::{Context as _, Result};
use serde::Serialize;

/// One measured value, with what was asked of it.
#[derive(Serialize)]
pub(crate) struct Figure {
    /// What was measured.
    pub(crate) name: String,
    /// The value.
    pub(crate) value: f64,
    /// Its unit.
    pub(crate) unit: &'static str,
    /// What was asked for, in words; empty when nothing was.
    pub(crate) asked: &'static str,
    /// How it was measured.
    pub(crate) how: String,
}

/// The value at a share of a sorted list, 0 to 100.
pub(crate) fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let place = (sorted.len().saturating_sub(1) * percent).div_ceil(100);
    sorted.get(place).copied().unwrap_or(f64::NAN)
}

/// The processor time of this process, as the kernel counts it, in seconds.
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
            let asked = if figure.asked.is_empty() {
                String::new()
            } else {
                format!("(asked: {})", figure.asked)
            };
            println!("{:<44} {:>14} {:<12} {asked}", figure.name, shown(figure.value), figure.unit);
            println!("    {}", figure.how);
        }
    }
    Ok(())
}

/// What was not measured.
#[derive(Serialize)]
pub(crate) struct LeftOut {
    /// What it would have been.
    pub(crate) name: &'static str,
    /// Why it was not, and what to do about it.
    #[serde(rename = "left_out")]
    pub(crate) why: String,
}

/// Prints everything in one table, a line each, with what was left out and why; as JSON only the latter.
pub(crate) fn summary(figures: &[Figure], left_out: &[LeftOut], json: bool) -> Result<()> {
    if json {
        for one in left_out {
            println!("{}", serde_json::to_string(one)?);
        }
        return Ok(());
    }
    let width = figures.iter().map(|figure| figure.name.chars().count()).max().unwrap_or_default();
    println!("\n{:<width$} {:>12} {:<10} asked", "measured", "", "");
    for Figure { name, value, unit, asked, .. } in figures {
        println!("{name:<width$} {:>12} {unit:<10} {asked}", shown(*value));
    }
    for LeftOut { name, why } in left_out {
        println!("{name:<width$} {:>12} {why}", "NOT measured");
    }
    Ok(())
}

/// Thousands separated, or three decimals for small values.
fn shown(value: f64) -> String {
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
