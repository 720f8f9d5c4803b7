//! Expansion of the attribute: the function unchanged, a type of its name that declares the job, and
//! a registration for discovery.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{ItemFn, parse2};

use crate::declaration;
use crate::options::Options;

/// Returns the function with its declaration, or with the compile errors.
pub(crate) fn expand(options: TokenStream, function: TokenStream) -> TokenStream {
    let declared = match parse2::<ItemFn>(function.clone()) {
        Ok(item) => declared(options, &item),
        Err(error) => Err(syn::Error::new(
            error.span(),
            "`#[job]` must be placed on a function, which is its handler",
        )),
    };
    // The function is kept in either case, so that one mistake does not cause further errors.
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
            let text = "`blocking` is for plain functions; remove it, or remove `async`";
            return Err(syn::Error::new(place, text));
        }
    };
    let (visibility, name) = (&function.vis, handler.to_string());
    // With the span of the arguments, so that the compiler marks a type that no handler can take.
    let constructor =
        quote_spanned!(signature.inputs.span()=> ::punctual::DeclaredJob::new(job, #call));
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
                #constructor
            }
        }

        ::punctual::__discoverable!(#handler);
    })
}
