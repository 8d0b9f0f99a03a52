//! The ABI as data: read from the Rust sources of `src/ffi`, laid out by the C rules.
//!
//! The sources are the one description. The header comes from them through cbindgen, the JSON from
//! this model; a C compiler then says whether the two agree (see `check_c` in the parent module).

use std::collections::BTreeMap;
use syn::{Attribute, FnArg, Item, ReturnType, Type};

/// A parameter or a field without its place: a name and a C type.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    pub name: String,
    pub ty: String,
}

/// An exported function, or the type of a callback.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    pub name: String,
    pub noun: String,
    pub since: Option<String>,
    pub returns: String,
    pub params: Vec<Param>,
}

/// A field with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub name: String,
    pub ty: String,
    pub offset: usize,
    pub size: usize,
    /// Set where the field is a function pointer.
    pub callback: Option<Callback>,
}

/// Return type and parameters of a function pointer.
#[derive(Clone, Debug, PartialEq)]
pub struct Callback {
    pub returns: String,
    pub params: Vec<Param>,
}

/// A `repr(C)` struct.
#[derive(Clone, Debug, PartialEq)]
pub struct Struct {
    pub name: String,
    pub since: Option<String>,
    pub size: usize,
    pub align: usize,
    pub fields: Vec<Field>,
}

/// A named scalar type.
#[derive(Clone, Debug, PartialEq)]
pub struct Alias {
    pub name: String,
    pub ty: String,
    pub callback: Option<Callback>,
}

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub struct Constant {
    pub name: String,
    pub since: Option<String>,
    pub ty: String,
    pub value: u64,
}

/// Everything a caller can see.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Abi {
    pub aliases: Vec<Alias>,
    pub constants: Vec<Constant>,
    pub structs: Vec<Struct>,
    pub functions: Vec<Function>,
    /// Sources in the header's order with the first line of their documentation.
    pub nouns: Vec<(String, String)>,
}

impl Abi {
    /// Reads sources given as (noun, text), in the order in which the header shows them.
    pub fn read(sources: &[(String, String)]) -> Result<Abi, String> {
        let mut abi = Abi::default();
        let mut layouts = Layouts::default();
        for (noun, text) in sources {
            let file = syn::parse_file(text).map_err(|e| format!("{noun}.rs: {e}"))?;
            abi.nouns
                .push((noun.clone(), doc_text(&file.attrs).lines().next().unwrap_or("").into()));
            for item in &file.items {
                abi.add(noun, item, &mut layouts).map_err(|e| format!("{noun}.rs: {e}"))?;
            }
        }
        Ok(abi)
    }

    fn add(&mut self, noun: &str, item: &Item, layouts: &mut Layouts) -> Result<(), String> {
        match item {
            Item::Fn(f) if is_exported(f) => self.functions.push(function(noun, f)?),
            Item::Type(t) => {
                let name = t.ident.to_string();
                layouts.set(&name, layouts.of(&t.ty)?);
                let callback = callback(&t.ty)?;
                self.aliases.push(Alias { name, ty: c_type(&t.ty)?, callback });
            }
            Item::Struct(s) if attr_text(&s.attrs, "repr").contains("C") => {
                let made = layout_struct(s, layouts)?;
                layouts.set(&made.name, (made.size, made.align));
                self.structs.push(made);
            }
            Item::Const(c) if matches!(c.vis, syn::Visibility::Public(_)) => {
                let name = c.ident.to_string();
                let value = literal(&c.expr).ok_or(format!("{name}: the value is no literal"))?;
                let since = since(&doc_text(&c.attrs));
                self.constants.push(Constant { name, since, ty: c_type(&c.ty)?, value });
            }
            _ => {}
        }
        Ok(())
    }
}

fn is_exported(f: &syn::ItemFn) -> bool {
    f.sig.abi.is_some() && f.attrs.iter().any(|a| a.path().is_ident("no_mangle"))
}

fn function(noun: &str, f: &syn::ItemFn) -> Result<Function, String> {
    let mut params = Vec::new();
    for input in &f.sig.inputs {
        let FnArg::Typed(arg) = input else { return Err("self in an exported function".into()) };
        let syn::Pat::Ident(name) = &*arg.pat else { return Err("unnamed parameter".into()) };
        params.push(Param { name: name.ident.to_string(), ty: c_type(&arg.ty)? });
    }
    let since = since(&doc_text(&f.attrs));
    let name = f.sig.ident.to_string();
    Ok(Function { name, noun: noun.into(), since, returns: c_return(&f.sig.output)?, params })
}

fn layout_struct(s: &syn::ItemStruct, layouts: &Layouts) -> Result<Struct, String> {
    let name = s.ident.to_string();
    let (mut end, mut align) = (0usize, 1usize);
    let mut fields = Vec::new();
    for field in &s.fields {
        let field_name = field.ident.as_ref().ok_or(format!("{name}: unnamed field"))?.to_string();
        let (size, field_align) = layouts.of(&field.ty)?;
        let offset = end.next_multiple_of(field_align);
        end = offset + size;
        align = align.max(field_align);
        let (ty, callback) = (c_type(&field.ty)?, callback(&field.ty)?);
        fields.push(Field { name: field_name, ty, offset, size, callback });
    }
    let since = since(&doc_text(&s.attrs));
    Ok(Struct { name, since, size: end.next_multiple_of(align), align, fields })
}

/// Size and alignment of every type seen so far, on 64-bit Linux.
#[derive(Default)]
struct Layouts(BTreeMap<String, (usize, usize)>);

impl Layouts {
    fn set(&mut self, name: &str, layout: (usize, usize)) {
        self.0.insert(name.into(), layout);
    }

    fn of(&self, ty: &Type) -> Result<(usize, usize), String> {
        match ty {
            Type::Ptr(_) => Ok((8, 8)),
            Type::Array(a) => {
                let (size, align) = self.of(&a.elem)?;
                let len = literal(&a.len).ok_or("an array length is no literal")?;
                Ok((size * len as usize, align))
            }
            Type::Path(_) if option_fn(ty).is_some() => Ok((8, 8)),
            Type::Path(p) => {
                let name = last_ident(p);
                match name.as_str() {
                    "u8" | "i8" | "c_char" => Ok((1, 1)),
                    "u16" | "i16" => Ok((2, 2)),
                    "u32" | "i32" | "f32" => Ok((4, 4)),
                    "u64" | "i64" | "f64" | "usize" | "isize" => Ok((8, 8)),
                    _ => self.0.get(&name).copied().ok_or(format!("layout of {name} unknown")),
                }
            }
            _ => Err("a type that C does not have".into()),
        }
    }
}

/// The C spelling of a Rust type of the ABI.
pub fn c_type(ty: &Type) -> Result<String, String> {
    match ty {
        Type::Ptr(p) => {
            let inner = c_type(&p.elem)?;
            let constness = if p.const_token.is_some() { "const " } else { "" };
            let star = if inner.ends_with('*') { "*" } else { " *" };
            Ok(format!("{constness}{inner}{star}"))
        }
        Type::Array(a) => {
            let len = literal(&a.len).ok_or("an array length is no literal")?;
            Ok(format!("{}[{len}]", c_type(&a.elem)?))
        }
        Type::Path(p) => match callback(ty)? {
            Some(c) => {
                let params: Vec<_> = c.params.iter().map(|p| declare(&p.ty, &p.name)).collect();
                Ok(format!("{} (*)({})", c.returns, params.join(", ")))
            }
            None => Ok(scalar(&last_ident(p)).into()),
        },
        _ => Err("a type that C does not have".into()),
    }
}

/// A declaration of a name with a type: "void **" and "out" give "void **out".
pub fn declare(ty: &str, name: &str) -> String {
    let space = if ty.ends_with('*') { "" } else { " " };
    format!("{ty}{space}{name}")
}

fn scalar(name: &str) -> &str {
    match name {
        "u8" => "uint8_t",
        "i8" => "int8_t",
        "u16" => "uint16_t",
        "i16" => "int16_t",
        "u32" => "uint32_t",
        "i32" => "int32_t",
        "u64" => "uint64_t",
        "i64" => "int64_t",
        "usize" => "size_t",
        "isize" => "ptrdiff_t",
        "f32" => "float",
        "f64" => "double",
        "c_void" => "void",
        "c_char" => "char",
        other => other,
    }
}

fn c_return(output: &ReturnType) -> Result<String, String> {
    match output {
        ReturnType::Default => Ok("void".into()),
        ReturnType::Type(_, ty) => c_type(ty),
    }
}

/// Return type and parameters where the type is `Option<extern "C" fn>`.
fn callback(ty: &Type) -> Result<Option<Callback>, String> {
    let Some(f) = option_fn(ty) else { return Ok(None) };
    let mut params = Vec::new();
    for (index, arg) in f.inputs.iter().enumerate() {
        let name = match &arg.name {
            Some((name, _)) => name.to_string(),
            None => return Err(format!("parameter {index} of a callback has no name")),
        };
        params.push(Param { name, ty: c_type(&arg.ty)? });
    }
    Ok(Some(Callback { returns: c_return(&f.output)?, params }))
}

fn option_fn(ty: &Type) -> Option<&syn::TypeBareFn> {
    let Type::Path(p) = ty else { return None };
    let last = p.path.segments.last()?;
    if last.ident != "Option" {
        return None;
    }
    let syn::PathArguments::AngleBracketed(args) = &last.arguments else { return None };
    match args.args.first()? {
        syn::GenericArgument::Type(Type::BareFn(f)) => Some(f),
        _ => None,
    }
}

fn last_ident(p: &syn::TypePath) -> String {
    p.path.segments.last().map_or(String::new(), |s| s.ident.to_string())
}

fn literal(expr: &syn::Expr) -> Option<u64> {
    match expr {
        syn::Expr::Lit(l) => match &l.lit {
            syn::Lit::Int(i) => i.base10_parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

fn attr_text(attrs: &[Attribute], name: &str) -> String {
    let found = attrs.iter().find(|a| a.path().is_ident(name));
    found.and_then(|a| a.meta.require_list().ok()).map_or(String::new(), |l| l.tokens.to_string())
}

/// Documentation of an item, one line a `///`.
pub fn doc_text(attrs: &[Attribute]) -> String {
    let mut lines = Vec::new();
    for attr in attrs.iter().filter(|a| a.path().is_ident("doc")) {
        if let syn::Meta::NameValue(nv) = &attr.meta {
            if let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(s), .. }) = &nv.value {
                lines.push(s.value().trim().to_string());
            }
        }
    }
    lines.join("\n")
}

/// The version after "Since:" in a documentation text.
fn since(doc: &str) -> Option<String> {
    let rest = doc.split("Since:").nth(1)?.trim_start();
    let word = rest.split_whitespace().next()?.trim_end_matches('.');
    word.starts_with(|c: char| c.is_ascii_digit()).then(|| word.to_string())
}
