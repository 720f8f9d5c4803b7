//! Text format of Prometheus.

use std::fmt::{Display, Write as _};

/// Builder of the text, line by line.
#[derive(Default)]
pub(super) struct Text(String);

impl Text {
    /// Writes the header lines of a metric.
    pub(super) fn begin(&mut self, name: &str, kind: &str, meaning: &str) {
        let _ = writeln!(self.0, "# HELP {name} {meaning}\n# TYPE {name} {kind}");
    }

    /// Writes one value.
    pub(super) fn line(&mut self, name: &str, labels: &str, value: impl Display) {
        let _ = match labels {
            "" => writeln!(self.0, "{name} {value}"),
            labels => writeln!(self.0, "{name}{{{labels}}} {value}"),
        };
    }

    pub(super) fn end(self) -> String {
        self.0
    }
}

/// Returns labels as they are written between braces.
pub(super) fn labels(labels: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, value) in labels {
        let comma = if text.is_empty() { "" } else { "," };
        let _ = write!(text, "{comma}{name}=\"");
        for c in value.chars() {
            match c {
                '\\' => text.push_str("\\\\"),
                '"' => text.push_str("\\\""),
                '\n' => text.push_str("\\n"),
                c => text.push(c),
            }
        }
        text.push('"');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        assert_eq!(labels(&[("a", "x\"y\\z\n"), ("b", "")]), r#"a="x\"y\\z\n",b="""#);
        let mut text = Text::default();
        text.begin("n", "gauge", "Means.");
        text.line("n", "", 1);
        text.line("n", &labels(&[("q", "d")]), 0.5);
        assert_eq!(text.end(), "# HELP n Means.\n# TYPE n gauge\nn 1\nn{q=\"d\"} 0.5\n");
    }
}
