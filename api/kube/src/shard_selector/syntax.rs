//! Parses CEL expressions to the extent that errors describe them: the kind of an expression, the
//! function that it calls, and its arguments.

use super::error::{ParseError, syntax_error};
use super::lexer::{Token, TokenKind, tokens};

/// CEL's limit for the length of an expression, in characters.
const MAX_CHARACTERS: usize = 100_000;
/// CEL's limit for the depth of nested expressions.
const MAX_DEPTH: usize = 250;
/// Names that CEL reserves.
const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];
/// Binary operators by ascending precedence. Operators of one level are left-associative.
const OPERATORS: [&[(&str, &str)]; 4] = [
    &[("&&", "_&&_")],
    &[
        ("<", "_<_"),
        ("<=", "_<=_"),
        (">", "_>_"),
        (">=", "_>=_"),
        ("==", "_==_"),
        ("!=", "_!=_"),
        ("in", "@in"),
    ],
    &[("+", "_+_"), ("-", "_-_")],
    &[("*", "_*_"), ("/", "_/_"), ("%", "_%_")],
];

/// CEL's numbers for the kinds of expressions.
pub(super) mod kind {
    pub(in super::super) const CALL: u8 = 1;
    pub(in super::super) const IDENT: u8 = 3;
    pub(in super::super) const LIST: u8 = 4;
    pub(in super::super) const LITERAL: u8 = 5;
    pub(in super::super) const MAP: u8 = 6;
    pub(in super::super) const SELECT: u8 = 7;
    pub(in super::super) const STRUCT: u8 = 8;
}

/// An expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expression {
    /// The operands of `||`, at least two, in their order.
    Or(Vec<Expression>),
    /// A function call with its arguments, or an operator other than `||`, whose operands are
    /// dropped.
    Call(String, Vec<Expression>),
    /// A name.
    Name(String),
    /// A field selection: its whole path (`a.b.c`), or, if it does not begin with a name, the kind
    /// of the expression at its start.
    Field(Result<String, u8>),
    /// A string literal.
    Text(String),
    /// Another literal, by the name of its type.
    Literal(&'static str),
    /// A list, a map or a message, by its kind.
    Collection(u8),
}

impl Expression {
    /// Returns CEL's number for the kind of the expression.
    pub(super) fn kind(&self) -> u8 {
        match self {
            Self::Or(_) | Self::Call(..) => kind::CALL,
            Self::Name(_) => kind::IDENT,
            Self::Field(_) => kind::SELECT,
            Self::Text(_) | Self::Literal(_) => kind::LITERAL,
            Self::Collection(kind) => *kind,
        }
    }

    /// Returns the path that the expression is, or the kind of the part that is not a path.
    pub(super) fn path(self) -> Result<String, u8> {
        match self {
            Self::Name(name) => Ok(name),
            Self::Field(path) => path,
            other => Err(other.kind()),
        }
    }

    fn is_path(&self) -> bool {
        matches!(self, Self::Name(_) | Self::Field(Ok(_)))
    }

    fn field(self, name: &str) -> Self {
        Self::Field(self.path().map(|mut path| {
            path.push('.');
            path.push_str(name);
            path
        }))
    }

    fn operator(name: &str) -> Self {
        Self::Call(name.to_owned(), Vec::new())
    }
}

/// The result of a parsing function. Boxed, because each level of nested brackets holds a dozen of
/// these on the stack, and there may be [`MAX_DEPTH`] levels.
type Parsed = Result<Box<Expression>, ParseError>;

/// Parses an expression.
pub(super) fn parse(text: &str) -> Result<Expression, ParseError> {
    let characters = text.chars().count();
    if characters > MAX_CHARACTERS {
        let limit = format!("size: {characters}, limit {MAX_CHARACTERS}");
        return Err(format!("expression code point size exceeds limit: {limit}").into());
    }
    let tokens = tokens(text)?;
    let mut parser = Parser {
        tokens: tokens.iter(),
        depth: 0,
    };
    let expression = parser.expression()?;
    match parser.peek() {
        TokenKind::End => Ok(*expression),
        _ => Err(parser.unexpected()),
    }
}

struct Parser<'w> {
    tokens: std::slice::Iter<'w, Token<'w>>,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> &TokenKind {
        let token = self.tokens.as_slice().first();
        token.map_or(&TokenKind::End, |token| &token.kind)
    }

    fn unexpected(&self) -> ParseError {
        let token = self.tokens.as_slice().first();
        let written = token.map_or("<EOF>", |token| token.written);
        syntax_error(format_args!("mismatched input '{written}'"))
    }

    fn at(&self, sign: &str) -> bool {
        matches!(self.peek(), TokenKind::Sign(there) if *there == sign)
    }

    /// Consumes a sign if it is the next token; returns whether it was.
    fn consume(&mut self, sign: &str) -> bool {
        let there = self.at(sign);
        if there {
            self.tokens.next();
        }
        there
    }

    fn expect(&mut self, sign: &str) -> Result<(), ParseError> {
        match self.consume(sign) {
            true => Ok(()),
            false => Err(self.unexpected()),
        }
    }

    fn name(&mut self) -> Result<String, ParseError> {
        let TokenKind::Name(name) = self.peek() else {
            return Err(self.unexpected());
        };
        let name = name.clone();
        self.tokens.next();
        Ok(name)
    }

    fn enter(&mut self) -> Result<(), ParseError> {
        self.depth += 1;
        match self.depth > MAX_DEPTH {
            true => Err(format!("expression recursion limit exceeded: {MAX_DEPTH}").into()),
            false => Ok(()),
        }
    }

    fn expression(&mut self) -> Parsed {
        self.enter()?;
        let mut expression = self.alternatives()?;
        // The last branch may be another conditional.
        while self.consume("?") {
            self.alternatives()?;
            self.expect(":")?;
            self.alternatives()?;
            *expression = Expression::operator("_?_:_");
        }
        self.depth -= 1;
        Ok(expression)
    }

    /// Parses the operands of `||`, which may contain other operators.
    fn alternatives(&mut self) -> Parsed {
        let mut operands = Vec::new();
        loop {
            operands.push(*self.operand()?);
            let mut weakest = OPERATORS.len();
            while let Some((row, name)) = self.operator() {
                self.tokens.next();
                self.operand()?;
                // The operator that is applied last determines the expression.
                if row <= weakest {
                    weakest = row;
                    operands.pop();
                    operands.push(Expression::operator(name));
                }
            }
            if !self.consume("||") {
                break;
            }
        }
        Ok(Box::new(either(operands)))
    }

    /// Returns the level in [`OPERATORS`] and the name of the next token, if it is an operator.
    fn operator(&self) -> Option<(usize, &'static str)> {
        OPERATORS.iter().enumerate().find_map(|(row, operators)| {
            let (_, name) = operators.iter().find(|(sign, _)| self.at(sign))?;
            Some((row, *name))
        })
    }

    /// Parses an operand: signs, a primary expression, and selections from it.
    fn operand(&mut self) -> Parsed {
        let sign = self.sign();
        let mut expression = self.primary()?;
        loop {
            if self.consume(".") {
                let field = self.name()?;
                *expression = match self.consume("(") {
                    true => Expression::Call(field, self.until(")")?),
                    false => expression.field(&field),
                };
            } else if self.consume("[") {
                self.expression()?;
                self.expect("]")?;
                *expression = Expression::operator("_[_]");
            } else if expression.is_path() && self.consume("{") {
                self.entries()?;
                *expression = Expression::Collection(kind::STRUCT);
            } else {
                return Ok(signed(sign, expression));
            }
        }
    }

    /// Consumes the signs before an operand; returns the resulting operator. Two equal signs cancel
    /// out.
    fn sign(&mut self) -> Option<&'static str> {
        let mut count = |sign| {
            let mut count = 0;
            while self.consume(sign) {
                count += 1;
            }
            count
        };
        match count("!") {
            0 => (count("-") % 2 == 1).then_some("-_"),
            signs => (signs % 2 == 1).then_some("!_"),
        }
    }

    fn primary(&mut self) -> Parsed {
        if self.consume("(") {
            let expression = self.expression()?;
            self.expect(")")?;
            return Ok(expression);
        }
        if self.consume("[") {
            self.until("]")?;
            return Ok(Expression::Collection(kind::LIST).into());
        }
        if self.consume("{") {
            self.entries()?;
            return Ok(Expression::Collection(kind::MAP).into());
        }
        if let Some(literal) = self.literal() {
            return Ok(literal.into());
        }
        let name = self.first_name()?;
        Ok(Box::new(match self.consume("(") {
            true => Expression::Call(name, self.until(")")?),
            false => Expression::Name(name),
        }))
    }

    fn literal(&mut self) -> Option<Expression> {
        let literal = match self.peek() {
            TokenKind::Text(text) => Expression::Text(text.clone()),
            TokenKind::Literal(of) => Expression::Literal(of),
            _ => return None,
        };
        self.tokens.next();
        Some(literal)
    }

    /// Parses a name that is not a field, with an optional leading dot.
    fn first_name(&mut self) -> Result<String, ParseError> {
        let dot = if self.consume(".") { "." } else { "" };
        let name = self.name()?;
        match RESERVED.contains(&&*name) {
            true => Err(format!("reserved identifier: {name}").into()),
            false => Ok(format!("{dot}{name}")),
        }
    }

    /// Parses expressions separated by commas, up to the closing sign. A list may end with a comma,
    /// arguments may not.
    fn until(&mut self, end: &str) -> Result<Vec<Expression>, ParseError> {
        let mut expressions = Vec::new();
        while !self.consume(end) {
            expressions.push(*self.expression()?);
            let ends = self.at(end);
            let misplaced = match self.consume(",") {
                true => self.at(end) && end != "]",
                false => !ends,
            };
            if misplaced {
                return Err(self.unexpected());
            }
        }
        Ok(expressions)
    }

    /// Parses `key: value` pairs separated by commas, up to the closing brace.
    fn entries(&mut self) -> Result<(), ParseError> {
        while !self.consume("}") {
            self.expression()?;
            self.expect(":")?;
            self.expression()?;
            if !self.consume(",") && !self.at("}") {
                return Err(self.unexpected());
            }
        }
        Ok(())
    }
}

/// Joins operands of `||`; a single one is returned unchanged.
fn either(mut operands: Vec<Expression>) -> Expression {
    match (operands.len(), operands.pop()) {
        (1, Some(only)) => only,
        (_, last) => {
            operands.extend(last);
            Expression::Or(operands)
        }
    }
}

/// Applies signs to an operand. A numeric literal includes its own sign.
fn signed(sign: Option<&str>, operand: Box<Expression>) -> Box<Expression> {
    let is_number = matches!(*operand, Expression::Literal("int64" | "float64"));
    match sign {
        Some(name) if name != "-_" || !is_number => Expression::operator(name).into(),
        _ => operand,
    }
}
