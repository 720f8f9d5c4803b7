//! Retry policy of a declaration: a list of waits, a word, or a word with settings.

use proc_macro2::TokenStream;
use punctual_schedule::near_words;
use quote::quote;
use syn::{Ident, Lit, LitStr};

use crate::options::Options;
use crate::value::{Value, duration};

const FORMS: &str = "use a list of waits such as \"1m, 5m\", \"none\", \"exponential\" or \"proportional\", or one of the last two with settings: exponential(first = \"10s\")";

/// Returns the call that sets the policy, if there is one.
pub(crate) fn retry(options: &mut Options) -> syn::Result<Option<TokenStream>> {
    let alone = options.place("attempts").filter(|_| options.place("retry").is_none());
    if let Some(place) = alone {
        let text = "`attempts` needs to know how long to wait in between: add `retry = \"1m\"` or `retry = \"exponential\"`";
        return Err(syn::Error::new(place, text));
    }
    let Some(value) = options.value("retry")? else { return Ok(None) };
    let policy = policy(&value)?;
    let attempts = match options.value("attempts")? {
        Some(value) => {
            let attempts = value.number("attempts", 1, u64::from(u32::MAX))?;
            let attempts = u32::try_from(attempts).unwrap_or(u32::MAX);
            quote!(.attempts(#attempts))
        }
        None => TokenStream::new(),
    };
    Ok(Some(quote!(.retry(#policy #attempts))))
}

fn policy(value: &Value) -> syn::Result<TokenStream> {
    match value {
        Value::Literal(Lit::Str(text)) => match text.value().trim() {
            "none" => Ok(quote!(::punctual::Retry::none())),
            "exponential" => Ok(quote!(::punctual::Retry::exponential())),
            "proportional" => Ok(quote!(::punctual::Retry::proportional())),
            _ => intervals(text),
        },
        Value::List(_, waits) => {
            let waits = waits.iter().map(duration).collect::<syn::Result<Vec<_>>>()?;
            Ok(quote!(::punctual::Retry::intervals([#(#waits),*])))
        }
        Value::Call(name, settings) => configured(name, settings),
        Value::Literal(_) => Err(value.refuse(format!("`retry` cannot be read; {FORMS}"))),
    }
}

fn intervals(text: &LitStr) -> syn::Result<TokenStream> {
    let value = text.value();
    let starts_with_digit = value.trim_start().starts_with(|letter: char| letter.is_ascii_digit());
    if !starts_with_digit && !value.trim_start().starts_with('P') {
        let words = ["none", "exponential", "proportional"];
        let hint = match near_words(value.trim(), words).as_slice() {
            [] => FORMS.to_owned(),
            near => format!("did you mean \"{}\"?", near.join("\" or \"")),
        };
        return Err(syn::Error::new(text.span(), format!("there is no retry {value:?}; {hint}")));
    }
    let waits = value
        .split(',')
        .map(|wait| duration(&LitStr::new(wait.trim(), text.span())))
        .collect::<syn::Result<Vec<_>>>()?;
    Ok(quote!(::punctual::Retry::intervals([#(#waits),*])))
}

/// Returns a policy with settings: the default one, with these fields changed.
fn configured(name: &Ident, settings: &[(Ident, Lit)]) -> syn::Result<TokenStream> {
    let word = name.to_string();
    let (variant, usual, known): (_, _, &[&str]) = match word.as_str() {
        "exponential" => (
            quote!(Exponential),
            quote!(::punctual::Retry::exponential()),
            &["first", "factor", "cap", "jitter"],
        ),
        "proportional" => (
            quote!(Proportional),
            quote!(::punctual::Retry::proportional()),
            &["ratio", "cap", "floor"],
        ),
        _ => {
            return Err(syn::Error::new(
                name.span(),
                format!("there is no retry `{word}`; {FORMS}"),
            ));
        }
    };
    let mut changes = TokenStream::new();
    for (field, value) in settings {
        let setting = field.to_string();
        if !known.contains(&setting.as_str()) {
            let text = format!("`{word}` has no setting `{setting}`; it has {}", known.join(", "));
            return Err(syn::Error::new(field.span(), text));
        }
        let value = if matches!(setting.as_str(), "factor" | "ratio" | "jitter") {
            let number = real(field, value)?;
            quote!(#number)
        } else {
            Value::Literal(value.clone()).duration(&setting)?
        };
        changes.extend(quote!(*#field = #value;));
    }
    let fields = settings.iter().map(|(field, _)| field);
    Ok(quote!({
        let mut retry = #usual;
        if let ::punctual::model::BackOffKind::#variant { #(#fields,)* .. } = &mut retry.backoff {
            #changes
        }
        retry
    }))
}

fn real(field: &Ident, value: &Lit) -> syn::Result<f64> {
    let number = match value {
        Lit::Float(number) => number.base10_parse().ok(),
        Lit::Int(number) => number.base10_parse().ok(),
        _ => None,
    };
    number
        .ok_or_else(|| syn::Error::new(value.span(), format!("`{field}` is a number such as 0.2")))
}
