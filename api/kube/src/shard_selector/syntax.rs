//! CEL expressions, reduced to what a refusal names: which kind each one is, which function it calls, with
//! which arguments.

use super::lexer::{Token, Word, words};
use super::refusal::{Refusal, syntax_error};

/// CEL's limit for one expression, in characters.
const MOST_CHARACTERS: usize = 100_000;
/// CEL's limit for expressions within expressions.
const DEEPEST: usize = 250;
/// Names that CEL keeps for itself.
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
/// Operators between two operands, from weak to strong; within a row they are applied from left to right.
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

/// CEL's numbers of the kinds of expressions.
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
    /// Operands of `||`, two at least, in their order.
    Or(Vec<Expression>),
    /// A call of a function, with its arguments; of an operator, without.
    Call(String, Vec<Expression>),
    /// A name.
    Name(String),
    /// A field: its whole path (`a.b.c`), or the kind of expression that it is a field of when that is no name.
    Field(Result<String, u8>),
    /// A literal text.
    Text(String),
    /// Another literal, by its type.
    Literal(&'static str),
    /// A list, a map or a message, by its kind.
    Collection(u8),
}

impl Expression {
    /// CEL's number of its kind.
    pub(super) fn kind(&self) -> u8 {
        match self {
            Self::Or(_) | Self::Call(..) => kind::CALL,
            Self::Name(_) => kind::IDENT,
            Self::Field(_) => kind::SELECT,
            Self::Text(_) | Self::Literal(_) => kind::LITERAL,
            Self::Collection(kind) => *kind,
        }
    }

    /// The path that it is, or the kind of what is none in it.
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

/// Small, because a level of brackets takes a dozen of them on the stack, and there may be [`DEEPEST`] levels.
type Parsed = Result<Box<Expression>, Refusal>;

/// Reads an expression.
pub(super) fn parse(text: &str) -> Result<Expression, Refusal> {
    let characters = text.chars().count();
    if characters > MOST_CHARACTERS {
        let limit = format!("size: {characters}, limit {MOST_CHARACTERS}");
        return Err(format!("expression code point size exceeds limit: {limit}").into());
    }
    let words = words(text)?;
    let mut parser = Parser {
        words: words.iter(),
        depth: 0,
    };
    let expression = parser.expression()?;
    match parser.peek() {
        Token::End => Ok(*expression),
        _ => Err(parser.unexpected()),
    }
}

struct Parser<'w> {
    words: std::slice::Iter<'w, Word<'w>>,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        let word = self.words.as_slice().first();
        word.map_or(&Token::End, |word| &word.token)
    }

    fn unexpected(&self) -> Refusal {
        let word = self.words.as_slice().first();
        let written = word.map_or("<EOF>", |word| word.written);
        syntax_error(format_args!("mismatched input '{written}'"))
    }

    fn at(&self, sign: &str) -> bool {
        matches!(self.peek(), Token::Sign(there) if *there == sign)
    }

    /// Goes past a sign that may be there.
    fn take(&mut self, sign: &str) -> bool {
        let there = self.at(sign);
        if there {
            self.words.next();
        }
        there
    }

    fn expect(&mut self, sign: &str) -> Result<(), Refusal> {
        match self.take(sign) {
            true => Ok(()),
            false => Err(self.unexpected()),
        }
    }

    fn name(&mut self) -> Result<String, Refusal> {
        let Token::Name(name) = self.peek() else {
            return Err(self.unexpected());
        };
        let name = name.clone();
        self.words.next();
        Ok(name)
    }

    fn enter(&mut self) -> Result<(), Refusal> {
        self.depth += 1;
        match self.depth > DEEPEST {
            true => Err(format!("expression recursion limit exceeded: {DEEPEST}").into()),
            false => Ok(()),
        }
    }

    fn expression(&mut self) -> Parsed {
        self.enter()?;
        let mut expression = self.alternatives()?;
        // The last branch may be another condition.
        while self.take("?") {
            self.alternatives()?;
            self.expect(":")?;
            self.alternatives()?;
            *expression = Expression::operator("_?_:_");
        }
        self.depth -= 1;
        Ok(expression)
    }

    /// Operands of `||`, each of which other operators may join.
    fn alternatives(&mut self) -> Parsed {
        let mut operands = Vec::new();
        loop {
            operands.push(*self.operand()?);
            let mut weakest = OPERATORS.len();
            while let Some((row, name)) = self.operator() {
                self.words.next();
                self.operand()?;
                // What is applied last is what the whole is.
                if row <= weakest {
                    weakest = row;
                    operands.pop();
                    operands.push(Expression::operator(name));
                }
            }
            if !self.take("||") {
                break;
            }
        }
        Ok(Box::new(either(operands)))
    }

    /// The operator that is next: its row in [`OPERATORS`] and its name.
    fn operator(&self) -> Option<(usize, &'static str)> {
        OPERATORS.iter().enumerate().find_map(|(row, operators)| {
            let (_, name) = operators.iter().find(|(sign, _)| self.at(sign))?;
            Some((row, *name))
        })
    }

    /// What stands between operators: its signs, a beginning, and what is selected from that.
    fn operand(&mut self) -> Parsed {
        let sign = self.sign();
        let mut expression = self.primary()?;
        loop {
            if self.take(".") {
                let field = self.name()?;
                *expression = match self.take("(") {
                    true => Expression::Call(field, self.until(")")?),
                    false => expression.field(&field),
                };
            } else if self.take("[") {
                self.expression()?;
                self.expect("]")?;
                *expression = Expression::operator("_[_]");
            } else if expression.is_path() && self.take("{") {
                self.entries()?;
                *expression = Expression::Collection(kind::STRUCT);
            } else {
                return Ok(signed(sign, expression));
            }
        }
    }

    /// The name of the operator that signs before an operand make; two of them cancel out.
    fn sign(&mut self) -> Option<&'static str> {
        let mut count = |sign| {
            let mut count = 0;
            while self.take(sign) {
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
        if self.take("(") {
            let expression = self.expression()?;
            self.expect(")")?;
            return Ok(expression);
        }
        if self.take("[") {
            self.until("]")?;
            return Ok(Expression::Collection(kind::LIST).into());
        }
        if self.take("{") {
            self.entries()?;
            return Ok(Expression::Collection(kind::MAP).into());
        }
        if let Some(literal) = self.literal() {
            return Ok(literal.into());
        }
        let name = self.first_name()?;
        Ok(Box::new(match self.take("(") {
            true => Expression::Call(name, self.until(")")?),
            false => Expression::Name(name),
        }))
    }

    fn literal(&mut self) -> Option<Expression> {
        let literal = match self.peek() {
            Token::Text(text) => Expression::Text(text.clone()),
            Token::Literal(of) => Expression::Literal(of),
            _ => return None,
        };
        self.words.next();
        Some(literal)
    }

    /// A name that is no field's, with the dot that it may begin with.
    fn first_name(&mut self) -> Result<String, Refusal> {
        let dot = if self.take(".") { "." } else { "" };
        let name = self.name()?;
        match RESERVED.contains(&&*name) {
            true => Err(format!("reserved identifier: {name}").into()),
            false => Ok(format!("{dot}{name}")),
        }
    }

    /// Expressions with commas between them, up to the closing sign. Behind the last one of a list, but not
    /// of arguments, there may be another comma.
    fn until(&mut self, end: &str) -> Result<Vec<Expression>, Refusal> {
        let mut expressions = Vec::new();
        while !self.take(end) {
            expressions.push(*self.expression()?);
            let ends = self.at(end);
            let misplaced = match self.take(",") {
                true => self.at(end) && end != "]",
                false => !ends,
            };
            if misplaced {
                return Err(self.unexpected());
            }
        }
        Ok(expressions)
    }

    /// `key: value` with commas between them, up to the closing brace.
    fn entries(&mut self) -> Result<(), Refusal> {
        while !self.take("}") {
            self.expression()?;
            self.expect(":")?;
            self.expression()?;
            if !self.take(",") && !self.at("}") {
                return Err(self.unexpected());
            }
        }
        Ok(())
    }
}

/// Operands of `||`; one alone is itself.
fn either(mut operands: Vec<Expression>) -> Expression {
    match (operands.len(), operands.pop()) {
        (1, Some(only)) => only,
        (_, last) => {
            operands.extend(last);
            Expression::Or(operands)
        }
    }
}

/// An operand with its signs; a number takes its own in.
fn signed(sign: Option<&str>, operand: Box<Expression>) -> Box<Expression> {
    let is_number = matches!(*operand, Expression::Literal("int64" | "float64"));
    match sign {
        Some(name) if name != "-_" || !is_number => Expression::operator(name).into(),
        _ => operand,
    }
}
