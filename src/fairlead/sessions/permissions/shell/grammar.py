"""Tables: the node names of the bash grammar, grouped by their use in the parser, and the parser's limits.

A node that is in none of the tables is an unexpected construct: a person is asked.
"""

import re

from fairlead.sessions.permissions.name_sets import names

# The grammar's error recovery is quadratic: 60 KB of `a|` take a minute, a line within these bounds under a second.
MAX_BYTES = 16 * 1024
MAX_SIGNS = 2048
SIGN = re.compile(r"[^\w\s./,:%+@-]")
MAX_DEPTH = 60  # nested nodes; the recursion limit of the Python interpreter is 1000
MAX_UNWRAP = 5  # nested commands: sudo env timeout sh -c ...

# Variables that affect only output and language. Any other can change what a program loads or runs (PATH,
# LD_PRELOAD, IFS, BASH_ENV, GIT_SSH_COMMAND, PAGER, NODE_OPTIONS ...): a list of those would never be complete.
SAFE_VARIABLES = names(
    "LANG LANGUAGE LC_ALL LC_CTYPE LC_COLLATE LC_MESSAGES LC_NUMERIC LC_TIME TZ NO_COLOR FORCE_COLOR CLICOLOR "
    "CLICOLOR_FORCE CI TERM COLUMNS LINES NODE_ENV PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONHASHSEED "
    "RUST_BACKTRACE RUST_LOG GOOS GOARCH"
)
# A variable that only the line itself uses: short, lower case (npm_config_x and http_proxy do not match).
_LOCAL_VARIABLE = re.compile(r"[a-z][a-z0-9]*")
# zsh ties these to variables such as PATH, or gives them a special meaning.
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
    "program list pipeline subshell compound_statement if_statement elif_clause else_clause while_statement do_group "
    "case_statement case_item negated_command for_statement redirected_statement variable_assignments "
    "command_substitution process_substitution"
)
# Bodies that contain words directly.
WITH_WORDS = names("for_statement case_statement case_item")
# Parts of a command that are not its words, apart from assignments.
NOT_WORDS = names("file_redirect herestring_redirect heredoc_redirect comment")
# Nodes that a newline would end.
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
    """Return whether programs behave the same with this variable set; `exported`: programs see it."""
    if name in SAFE_VARIABLES:
        return True
    return not exported and _LOCAL_VARIABLE.fullmatch(name) is not None and name not in _ZSH_VARIABLES
