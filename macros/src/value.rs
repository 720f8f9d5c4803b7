//! Values of options: text, numbers, lists, and calls such as `exponential(first = "10s")`. Each is
//! read as the type its option needs, and errors point at the value itself.

use std::time::Duration;

use jiff::Timestamp;
use proc_macro2::{Span, TokenStream};
use punctual_schedule::{format_duration, parse_duration};
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Ident, Lit, LitStr, Token, bracketed, parenthesized};

/// The value after the equals sign.
pub(crate) enum Value {
    /// A literal.
    Literal(Lit),
    /// Several texts.
    List(Span, Vec<LitStr>),
    /// A word with settings in brackets.
    Call(Ident, Vec<(Ident, Lit)>),
}

impl Parse for Value {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if input.peek(syn::token::Bracket) {
            let content;
            let bracket = bracketed!(content in input);
            let list = Punctuated::<LitStr, Token![,]>::parse_terminated(&content)?;
            return Ok(Self::List(bracket.span.join(), list.into_iter().collect()));
        }
        if input.peek(Ident) {
            let name: Ident = input.parse()?;
            let content;
            parenthesized!(content in input);
            let settings = Punctuated::<Setting, Token![,]>::parse_terminated(&content)?;
            let settings = settings.into_iter().map(|Setting(name, value)| (name, value));
            return Ok(Self::Call(name, settings.collect()));
        }
        input.parse().map(Self::Literal)
    }
}

struct Setting(Ident, Lit);

impl Parse for Setting {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let name = input.parse()?;
        input.parse::<Token![=]>()?;
        Ok(Self(name, input.parse()?))
    }
}

impl Value {
    /// Returns the place of the value.
    pub(crate) fn span(&self) -> Span {
        match self {
            Self::Literal(literal) => literal.span(),
            Self::List(span, _) => *span,
            Self::Call(name, _) => name.span(),
        }
    }

    /// Returns an error at this value.
    pub(crate) fn refuse(&self, text: impl std::fmt::Display) -> syn::Error {
        syn::Error::new(self.span(), text)
    }

    /// Reads a text.
    pub(crate) fn text(&self, option: &str) -> syn::Result<LitStr> {
        match self {
            Self::Literal(Lit::Str(text)) => Ok(text.clone()),
            _ => Err(self.refuse(format!("`{option}` is a text in quotes"))),
        }
    }

    /// Reads one text or several.
    pub(crate) fn texts(&self, option: &str) -> syn::Result<Vec<LitStr>> {
        match self {
            Self::List(_, texts) => Ok(texts.clone()),
            Self::Literal(Lit::Str(text)) => Ok(vec![text.clone()]),
            _ => Err(self.refuse(format!(
                "`{option}` is a text in quotes, or several: `{option} = [\"a\", \"b\"]`"
            ))),
        }
    }

    /// Reads a whole number within bounds.
    pub(crate) fn number(&self, option: &str, least: u64, most: u64) -> syn::Result<u64> {
        let found = match self {
            Self::Literal(Lit::Int(number)) => number.base10_parse::<u64>().ok(),
            _ => None,
        };
        match found {
            Some(number) if (least..=most).contains(&number) => Ok(number),
            _ if most == u64::MAX => {
                Err(self.refuse(format!("`{option}` is a whole number of at least {least}")))
            }
            _ => Err(self.refuse(format!("`{option}` is a whole number from {least} to {most}"))),
        }
    }

    /// Reads a duration and returns its code.
    pub(crate) fn duration(&self, option: &str) -> syn::Result<TokenStream> {
        let text = match self {
            Self::Literal(Lit::Int(number)) => {
                let example = format_duration(Duration::from_secs(30));
                let text = format!(
                    "`{option}` is a duration with its unit, in quotes: `{option} = \"{example}\"`, not {number}"
                );
                return Err(self.refuse(text));
            }
            _ => self.text(option)?,
        };
        duration(&text)
    }

    /// Reads an instant and returns its code.
    pub(crate) fn instant(&self, option: &str) -> syn::Result<TokenStream> {
        let text = self.text(option)?;
        let instant: Timestamp = text.value().trim().parse().map_err(|_| {
            syn::Error::new(
                text.span(),
                format!(
                    "{:?} is not an instant, write one such as 2026-03-29T09:00:00+02:00",
                    text.value()
                ),
            )
        })?;
        let (second, nanosecond) = (instant.as_second(), instant.subsec_nanosecond());
        Ok(quote!(::punctual::jiff::Timestamp::constant(#second, #nanosecond)))
    }
}

/// Parses a duration and returns its code.
pub(crate) fn duration(text: &LitStr) -> syn::Result<TokenStream> {
    let duration = parse_duration(&text.value())
        .map_err(|error| syn::Error::new(text.span(), error.to_string()))?;
    Ok(duration_code(duration))
}

/// Returns the code of a duration.
pub(crate) fn duration_code(duration: Duration) -> TokenStream {
    let (seconds, nanoseconds) = (duration.as_secs(), duration.subsec_nanos());
    quote!(::core::time::Duration::new(#seconds, #nanoseconds))
}
