//! When: schedules as pure values. Nothing here reads a clock or knows tokio.
