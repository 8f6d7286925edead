"""The bash grammar's node names, sorted by what they are to us, and the limits of reading. Tables only.

A node that stands in none of them is a construct that nobody has thought about: it asks.
"""

import re

from fairlead.sessions.permissions.policy.tools import names

# The grammar's error recovery is quadratic: 60 KB of `a|` take it a minute, these bounds less than a second.
MAX_BYTES = 16 * 1024
MAX_SIGNS = 2048
SIGN = re.compile(r"[^\w\s./,:%+@-]")
MAX_DEPTH = 60  # nodes within nodes; the interpreter's own recursion limit is 1000
MAX_UNWRAP = 5  # commands within commands: sudo env timeout sh -c ...

# Assignments that steer nothing but output and language. Everything else can choose what a program loads or
# runs (PATH, LD_PRELOAD, IFS, BASH_ENV, GIT_SSH_COMMAND, PAGER, NODE_OPTIONS ...): a list of those never ends.
SAFE_VARIABLES = names(
    "LANG LANGUAGE LC_ALL LC_CTYPE LC_COLLATE LC_MESSAGES LC_NUMERIC LC_TIME TZ NO_COLOR FORCE_COLOR CLICOLOR "
    "CLICOLOR_FORCE CI TERM COLUMNS LINES NODE_ENV PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONHASHSEED "
    "RUST_BACKTRACE RUST_LOG GOOS GOARCH"
)
# A variable of the line itself, which no program reads: short, lower case (npm_config_x and http_proxy are not).
_LOCAL_VARIABLE = re.compile(r"[a-z][a-z0-9]*")
# zsh ties these to PATH and the like, or gives them a meaning of their own.
_ZSH_VARIABLES = names(
    "path fpath cdpath manpath mailpath argv status pipestatus prompt psvar signals watch aliases functions commands "
    "options builtins parameters modules history jobstates dirstack keymaps widgets fignore histchars"
)

WORDS = names(
    "word number string raw_string ansi_c_string translated_string concatenation simple_expansion expansion "
    "command_substitution process_substitution arithmetic_expansion brace_expression extglob_pattern"
)
EXPANSIONS = names("simple_expansion expansion command_substitution process_substitution arithmetic_expansion")
BODIES = names(
    "program list pipeline subshell compound_statement if_statement elif_clause else_clause while_statement "
    "do_group case_statement case_item negated_command for_statement redirected_statement variable_assignments "
    "command_substitution process_substitution"
)
# Bodies with words of their own, and nodes that a newline would end.
WITH_WORDS = names("for_statement case_statement case_item")
ONE_LINE = names(
    "command redirected_statement variable_assignments declaration_command unset_command file_redirect "
    "herestring_redirect"
)
OPERATORS = names("; & && || | |& ( ) ;; ;& ;;& $( ` <( >(") | {"\n"}
TOKENS = OPERATORS | names("{ } ! if then elif else fi while until do done for select in case esac")
TEST_WORDS = names(
    "[ [[ ] ]] -a -b -c -d -e -f -g -h -k -n -o -p -r -s -t -u -w -x -z -G -L -N -O -S -nt -ot -ef = == != !"
)
TEST_SIGNS = names("< > && || ( )")
TEST_PARTS = names("unary_expression binary_expression parenthesized_expression")


def is_harmless_variable(name: str, *, exported: bool) -> bool:
    """Whether setting this variable changes nothing that programs do; `exported`: a program will see it."""
    if name in SAFE_VARIABLES:
        return True
    return not exported and _LOCAL_VARIABLE.fullmatch(name) is not None and name not in _ZSH_VARIABLES
