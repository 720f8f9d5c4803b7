//! Declaration: from options to the builder calls that create the same job. Every mistake in it is
//! reported, not only the first.

use proc_macro2::{Span, TokenStream};
use punctual_schedule::{Cron, Interval, Spread, SpreadLimit, Zone, near_words, parse_duration};
use quote::quote;

use crate::options::Options;
use crate::retry::retry;
use crate::value::{Value, duration_code};

const MISFIRES: [&str; 4] = ["fire_now", "fire_once", "fire_all", "skip_to_next"];
const OVERLAPS: [&str; 4] = ["skip", "queue_one", "allow", "cancel_running"];
const ON_TIMEOUT: [(&str, &str); 2] = [("retry", "Retry"), ("fail", "Fail")];
const WHEN_INTERRUPTED: [(&str, &str); 2] = [("again", "Again"), ("lost", "Lost")];

/// The builder calls collected so far, and the mistakes found.
#[derive(Default)]
struct Calls {
    calls: TokenStream,
    error: Option<syn::Error>,
}

impl Calls {
    fn add(&mut self, call: syn::Result<Option<TokenStream>>) {
        match call {
            Ok(call) => self.calls.extend(call),
            Err(error) => match &mut self.error {
                Some(before) => before.combine(error),
                None => self.error = Some(error),
            },
        }
    }

    /// Returns all calls, or all mistakes combined.
    fn finish(self) -> syn::Result<TokenStream> {
        self.error.map_or(Ok(self.calls), Err)
    }
}

/// Returns the code that builds the job.
pub(crate) fn job(options: &mut Options) -> syn::Result<TokenStream> {
    let mut calls = Calls::default();
    let start = match schedule(options) {
        Ok(start) => start,
        Err(error) => {
            calls.add(Err(error));
            TokenStream::new()
        }
    };
    calls.add(misfire(options));
    calls.add(overlap(options));
    calls.add(retry(options));
    calls.add(on_timeout(options));
    calls.add(when_interrupted(options));
    calls.add(spread(options));
    calls.add(with(options, "timeout", |value| {
        let duration = value.duration("timeout")?;
        Ok(quote!(.timeout(#duration)))
    }));
    for (option, call) in [("start", quote!(start)), ("end", quote!(end))] {
        calls.add(with(options, option, |value| {
            let instant = value.instant(option)?;
            Ok(quote!(.#call(#instant)))
        }));
    }
    for (option, call) in
        [("queue", quote!(queue)), ("topic", quote!(topic)), ("description", quote!(description))]
    {
        calls.add(with(options, option, |value| {
            let text = filled(value, option)?;
            Ok(quote!(.#call(#text)))
        }));
    }
    for (option, call) in [("exclude", quote!(exclude)), ("tags", quote!(tag))] {
        calls.add(with(options, option, |value| {
            let texts = value.texts(option)?;
            Ok(quote!(#(.#call(#texts))*))
        }));
    }
    calls.add(with(options, "runs_max", |value| {
        let runs = value.number("runs_max", 1, u64::MAX)?;
        Ok(quote!(.runs_max(#runs)))
    }));
    calls.add(with(options, "priority", |value| {
        let level = u8::try_from(value.number("priority", 0, 9)?).unwrap_or(9);
        Ok(quote!(.priority(#level)))
    }));
    calls.add(options.flag("must_report").map(|given| given.then(|| quote!(.must_report()))));
    let calls = calls.finish()?;
    Ok(quote!(#start #calls))
}

fn with(
    options: &mut Options,
    option: &str,
    call: impl FnOnce(&Value) -> syn::Result<TokenStream>,
) -> syn::Result<Option<TokenStream>> {
    options.value(option)?.map(|value| call(&value)).transpose()
}

/// Reads a text that is not empty.
fn filled(value: &Value, option: &str) -> syn::Result<String> {
    let text = value.text(option)?.value();
    match text.trim() {
        "" => Err(value.refuse(format!("`{option}` is empty; give it at least one character"))),
        _ => Ok(text),
    }
}

/// Returns the constructor call: the name and the schedule of the job.
fn schedule(options: &mut Options) -> syn::Result<TokenStream> {
    let name = match options.value("name")? {
        Some(value) => filled(&value, "name")?,
        None => {
            return Err(syn::Error::new(
                Span::call_site(),
                "a job needs a stable name, because stored data refers to it: add `name = \"...\"`",
            ));
        }
    };
    let given: Vec<(&str, Span)> = ["cron", "every", "once"]
        .into_iter()
        .filter_map(|option| Some((option, options.place(option)?)))
        .collect();
    match given.as_slice() {
        [("cron", _)] => cron(options, &name),
        [("every", _)] => every(options, &name),
        [(_, _)] => {
            only_with(options, "zone", "cron")?;
            only_with(options, "anchor", "every")?;
            let at = options.value("once")?.map(|value| value.instant("once")).transpose()?;
            Ok(quote!(::punctual::Job::once(#name, #at)))
        }
        [] => Err(syn::Error::new(
            Span::call_site(),
            "a job needs a schedule: add `cron = \"0 2 * * *\"`, `every = \"5m\"` or `once = \"2026-03-29T09:00:00Z\"`",
        )),
        [(first, _), (second, place), ..] => Err(syn::Error::new(
            *place,
            format!("a job has one schedule, and there is `{first}` already; remove `{second}`"),
        )),
    }
}

/// Fails when an option is present without the one it belongs to.
fn only_with(options: &Options, option: &str, partner: &str) -> syn::Result<()> {
    match options.place(option) {
        Some(place) => {
            let text = format!("`{option}` goes with `{partner}`, and this job has none");
            Err(syn::Error::new(place, text))
        }
        None => Ok(()),
    }
}

fn cron(options: &mut Options, name: &str) -> syn::Result<TokenStream> {
    only_with(options, "anchor", "every")?;
    let mut calls = Calls::default();
    let mut expression = String::new();
    calls.add(with(options, "cron", |value| {
        expression = value.text("cron")?.value();
        Cron::parse_seeded(&expression, name).map_err(|error| value.refuse(error))?;
        Ok(TokenStream::new())
    }));
    calls.add(with(options, "zone", |value| {
        let zone = value.text("zone")?.value();
        Zone::named(&zone).map_err(|error| value.refuse(error))?;
        Ok(quote!(.zone(#zone)))
    }));
    let zone = calls.finish()?;
    Ok(quote!(::punctual::Job::cron(#name, #expression) #zone))
}

fn every(options: &mut Options, name: &str) -> syn::Result<TokenStream> {
    only_with(options, "zone", "cron")?;
    let every = with(options, "every", |value| {
        let duration = value.duration("every")?;
        let parsed = parse_duration(&value.text("every")?.value());
        parsed
            .and_then(|every| Interval::new(every, jiff::Timestamp::UNIX_EPOCH))
            .map_err(|error| value.refuse(error))?;
        Ok(duration)
    })?;
    let anchor = with(options, "anchor", |value| {
        if value.text("anchor").is_ok_and(|text| text.value() == "last run") {
            return Ok(quote!(.anchor_at_last_run()));
        }
        let instant = value.instant("anchor")?;
        Ok(quote!(.anchor(#instant)))
    })?;
    Ok(quote!(::punctual::Job::every(#name, #every) #anchor))
}

/// Reads one of a few words.
fn choice(value: &Value, option: &str, words: &[&str]) -> syn::Result<String> {
    let word = value.text(option)?.value();
    if words.contains(&word.as_str()) {
        return Ok(word);
    }
    let hint = match near_words(&word, words.iter().copied()).as_slice() {
        [] => format!("use {}", words.join(", ")),
        near => format!("did you mean \"{}\"?", near.join("\" or \"")),
    };
    Err(value.refuse(format!("there is no {option} {word:?}; {hint}")))
}

fn misfire(options: &mut Options) -> syn::Result<Option<TokenStream>> {
    let policy = with(options, "misfire", |value| {
        let word = choice(value, "misfire", &MISFIRES)?;
        let policy = syn::Ident::new(&word, value.span());
        Ok(quote!(::punctual::Misfire::#policy()))
    })?;
    let chosen = policy.is_some();
    let mut settings = Calls::default();
    for (option, call) in
        [("misfire_threshold", quote!(threshold)), ("misfire_window", quote!(window))]
    {
        settings.add(with(options, option, |value| {
            let duration = value.duration(option)?;
            Ok(quote!(.#call(#duration)))
        }));
    }
    settings.add(with(options, "catch_up_max", |value| {
        let most = u32::try_from(value.number("catch_up_max", 1, 10_000)?).unwrap_or(u32::MAX);
        Ok(quote!(.catch_up_max(#most)))
    }));
    let (settings, policy) = (
        settings.finish()?,
        policy.unwrap_or_else(|| {
            quote!(<::punctual::Misfire as ::core::default::Default>::default())
        }),
    );
    Ok((chosen || !settings.is_empty()).then(|| quote!(.misfire(#policy #settings))))
}

fn overlap(options: &mut Options) -> syn::Result<Option<TokenStream>> {
    with(options, "overlap", |value| {
        let text = value.text("overlap")?.value();
        let limit = text.trim().strip_prefix("allow(").and_then(|rest| rest.strip_suffix(')'));
        if let Some(limit) = limit {
            let most: u32 =
                limit.trim().parse().ok().filter(|most| *most > 0).ok_or_else(|| {
                    value.refuse(format!(
                        "{text:?} needs a number of at least 1, such as \"allow(3)\""
                    ))
                })?;
            let most = quote!(::core::option::Option::Some(#most));
            return Ok(quote!(.overlap(::punctual::Overlap::Allow { parallel_max: #most })));
        }
        let overlap = match choice(value, "overlap", &OVERLAPS)?.as_str() {
            "skip" => quote!(Skip),
            "queue_one" => quote!(QueueOne),
            "allow" => quote!(Allow { parallel_max: ::core::option::Option::None }),
            _ => quote!(CancelRunning),
        };
        Ok(quote!(.overlap(::punctual::Overlap::#overlap)))
    })
}

fn on_timeout(options: &mut Options) -> syn::Result<Option<TokenStream>> {
    with(options, "on_timeout", |value| {
        let words = ON_TIMEOUT.map(|(word, _)| word);
        let word = choice(value, "on_timeout", &words)?;
        let variant =
            ON_TIMEOUT.iter().find(|(known, _)| *known == word).map_or("Retry", |(_, v)| v);
        let variant = syn::Ident::new(variant, value.span());
        Ok(quote!(.on_timeout(::punctual::model::OnTimeout::#variant)))
    })
}

fn when_interrupted(options: &mut Options) -> syn::Result<Option<TokenStream>> {
    with(options, "when_interrupted", |value| {
        let words = WHEN_INTERRUPTED.map(|(word, _)| word);
        let word = choice(value, "when_interrupted", &words)?;
        let variant =
            WHEN_INTERRUPTED.iter().find(|(known, _)| *known == word).map_or("Again", |(_, v)| v);
        let variant = syn::Ident::new(variant, value.span());
        Ok(quote!(.when_interrupted(::punctual::model::WhenInterrupted::#variant)))
    })
}

fn spread(options: &mut Options) -> syn::Result<Option<TokenStream>> {
    with(options, "spread", |value| {
        let spread: Spread =
            value.text("spread")?.value().parse().map_err(|error| value.refuse(error))?;
        let code = match spread {
            Spread::None => quote!(None),
            Spread::Stable(reach) => {
                let reach = reached(reach);
                quote!(Stable(#reach))
            }
            Spread::Random(reach) => {
                let reach = reached(reach);
                quote!(Random(#reach))
            }
        };
        Ok(quote!(.spread(::punctual::schedule::Spread::#code)))
    })
}

fn reached(reach: SpreadLimit) -> TokenStream {
    match reach {
        SpreadLimit::Duration(duration) => {
            let duration = duration_code(duration);
            quote!(::punctual::schedule::SpreadLimit::Duration(#duration))
        }
        SpreadLimit::Percent(percent) => {
            quote!(::punctual::schedule::SpreadLimit::Percent(#percent))
        }
    }
}
