//! What the attribute leaves behind: the function as it was, a type of its name that knows the job, and
//! a note for discovery.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{ItemFn, parse2};

use crate::declaration;
use crate::options::Options;

/// The function with its declaration, or with what is wrong with it.
pub(crate) fn expand(options: TokenStream, function: TokenStream) -> TokenStream {
    let declared = match parse2::<ItemFn>(function.clone()) {
        Ok(item) => declared(options, &item),
        Err(error) => Err(syn::Error::new(
            error.span(),
            "`#[job]` stands on a function, which is its handler",
        )),
    };
    // The function stays in either case, so that one mistake is not followed by ten others.
    let declared = declared.unwrap_or_else(|error| error.to_compile_error());
    quote!(#function #declared)
}

fn declared(options: TokenStream, function: &ItemFn) -> syn::Result<TokenStream> {
    let mut options: Options = parse2(options)?;
    let blocking = options.place("blocking");
    let job = declaration::job(&mut options)?;
    options.flag("blocking")?;
    let signature = &function.sig;
    if let Some(generic) = signature.generics.params.first() {
        let text = "a job's handler cannot be generic; call the generic function from a plain one";
        return Err(syn::Error::new(generic.span(), text));
    }
    let handler = &signature.ident;
    let call = match (blocking, signature.asyncness) {
        (None, Some(_)) => quote!(#handler),
        (Some(_), None) => quote!(::punctual::blocking(#handler)),
        (None, None) => {
            return Err(syn::Error::new(
                signature.fn_token.span(),
                "a handler is an `async fn`; for a plain function that blocks its thread, add the option `blocking`",
            ));
        }
        (Some(place), Some(_)) => {
            let text = "`blocking` is for plain functions; take it away, or take `async` away";
            return Err(syn::Error::new(place, text));
        }
    };
    let (visibility, name) = (&function.vis, handler.to_string());
    // At the function's arguments, where a type that no handler can take is marked.
    let made = quote_spanned!(signature.inputs.span()=> ::punctual::DeclaredJob::new(job, #call));
    Ok(quote! {
        #[doc(hidden)]
        #[allow(non_camel_case_types, dead_code)]
        #[derive(Debug)]
        #visibility enum #handler {}

        impl ::punctual::Declare for #handler {
            fn declared() -> ::punctual::DeclaredJob {
                let job = #job.declared_at(::core::concat!(
                    ::core::module_path!(), "::", #name, " (", ::core::file!(), ":", ::core::line!(), ")"
                ));
                #made
            }
        }

        ::punctual::__discoverable!(#handler);
    })
}
