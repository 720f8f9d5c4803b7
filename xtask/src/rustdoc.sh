#!/bin/sh
# rustdoc, which also writes the recorded crates as JSON; see public_api.rs.
case " $* " in
*" --crate-name punctual "* | *" --crate-name punctual_schedule "*)
    RUSTC_BOOTSTRAP=1 rustdoc "$@" -Z unstable-options --output-format json || exit
    ;;
esac
exec rustdoc "$@"
