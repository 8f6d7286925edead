"""Options of programs: which ones only change the output, and which ones run programs, write files or follow links.

A rule such as `Bash(git log:*)` is meant for the usual behaviour of a program. An option that makes the program do more
is not covered unless the rule names it. For programs in `SAFE`, a person is asked about every option that is not
listed; for other programs, about the options in `RISKY` and `RISKY_ANYWHERE`. Tables first, then one reader. Pure.
"""

import re
from collections.abc import Sequence

import msgspec

from fairlead.sessions.permissions.name_sets import names
from fairlead.sessions.permissions.shell.wrappers import base_name


class ProgramOptions(msgspec.Struct, frozen=True):
    """Options of one program.

    `flags` and `valued` are single characters (a valued option takes the rest of its word), `long` has names without
    dashes.
    """

    flags: str = ""
    valued: str = ""
    long: frozenset[str] = frozenset()


def _options(flags: str = "", long: str = "", valued: str = "") -> ProgramOptions:
    return ProgramOptions(flags, valued, names(long))


_DIFF = (
    "oneline graph decorate all stat shortstat numstat name-only name-status patch no-patch cached staged word-diff "
    "color no-color pretty format abbrev-commit no-abbrev-commit abbrev author committer grep since until after before "
    "date follow reverse merges no-merges first-parent max-count skip left-right cherry-pick cherry branches tags "
    "remotes summary raw diff-filter find-renames find-copies ignore-all-space ignore-space-change ignore-blank-lines "
    "ignore-space-at-eol unified no-ext-diff no-textconv no-prefix minimal patience histogram check exit-code quiet "
    "relative full-index topo-order date-order function-context no-renames compact-summary dirstat all-match "
    "invert-grep regexp-ignore-case extended-regexp fixed-strings perl-regexp merge-base simplify-by-decoration "
    "boundary parents children source no-notes walk-reflogs clear-decorations decorate-refs pickaxe-regex pickaxe-all "
    "binary text no-color-moved color-moved color-words word-diff-regex inter-hunk-context no-indent-heuristic "
    "stat-width ancestry-path not end-of-options"
)
_LOG = _options("pusqzwbimcgEFPRa0123456789", _DIFF, "nSGLUMC")
_GREP = _options(
    "EFGPivwxcLlqsHhnTZaIUzbory0123456789",
    "extended-regexp fixed-strings basic-regexp perl-regexp regexp ignore-case no-ignore-case invert-match word-regexp "
    "line-regexp count color colour files-without-match files-with-matches max-count only-matching quiet silent "
    "no-messages byte-offset with-filename no-filename line-number initial-tab null after-context before-context "
    "context text binary-files exclude exclude-dir include recursive null-data line-buffered directories",
    "efmABCDd",
)

# Programs that only read. Two words: a program with subcommands, and one of its subcommands.
SAFE: dict[str, ProgramOptions] = {
    "ls": _options(
        "aAbBcCdfFgGhHiklmnNopqQrRsStuUvxXZ1",
        "all almost-all author escape block-size ignore-backups color directory classify file-type format full-time "
        "group-directories-first no-group human-readable si inode indicator-style ignore hide kibibytes "
        "numeric-uid-gid literal hide-control-chars show-control-chars quote-name quoting-style reverse recursive size "
        "sort time time-style tabsize width context hyperlink",
        "ITw",
    ),
    "cat": _options("AbeEnstTuv", "show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting"),
    "head": _options("qvz0123456789", "bytes lines quiet silent verbose zero-terminated", "cn"),
    "tail": _options("qvzfFr0123456789", "bytes lines quiet silent verbose zero-terminated follow retry pid", "cns"),
    "wc": _options("clmwL", "bytes chars lines words max-line-length total"),
    "grep": _GREP,
    "egrep": _GREP,
    "fgrep": _GREP,
    "which": _options("as", "all"),
    "stat": _options("ftLx", "format printf file-system terse dereference", "c"),
    "du": _options(
        "abcDhHklmPsSx0",
        "all apparent-size block-size bytes total max-depth human-readable si summarize separate-dirs one-file-system "
        "exclude threshold null no-dereference",
        "dBt",
    ),
    "df": _options("ahHiklPT", "all block-size human-readable si inodes local portability print-type type", "Btx"),
    "uname": _options("asnrvmpio", "all kernel-name nodename kernel-release kernel-version machine"),
    "realpath": _options("ePLmqsz", "canonicalize-existing canonicalize-missing logical physical quiet strip zero"),
    "readlink": _options("femnqsvz", "canonicalize canonicalize-existing canonicalize-missing no-newline zero"),
    "diff": _options(
        "qsceunyptTlNiEbwBaZd0123456789",
        "brief report-identical-files context unified side-by-side width left-column suppress-common-lines label "
        "show-c-function expand-tabs new-file ignore-case ignore-tab-expansion ignore-trailing-space "
        "ignore-space-change ignore-all-space ignore-blank-lines text strip-trailing-cr minimal color normal ed",
        "UCWLFI",
    ),
    "cmp": _options("bls", "print-bytes verbose quiet silent bytes ignore-initial", "in"),
    "nl": _options("p", "body-numbering number-width number-format number-separator", "bdfhilnsvw"),
    "cut": _options("nsz", "bytes characters fields delimiter only-delimited complement output-delimiter", "bcdf"),
    "tr": _options("cCdst", "complement delete squeeze-repeats truncate-set1"),
    "git status": _options(
        "sbvuzx",
        "short branch porcelain verbose untracked-files ignored ignore-submodules column no-column ahead-behind "
        "no-ahead-behind show-stash find-renames no-renames long null",
    ),
    "git log": _LOG,
    "git diff": _LOG,
    "git show": _LOG,
    "git shortlog": _options("snec0123456789", _DIFF + " numbered summary email group", "w"),
    "git branch": _options(
        "arvlq",
        "list all remotes verbose show-current contains no-contains merged no-merged sort column format points-at "
        "color no-color abbrev ignore-case",
    ),
    "git tag": _options(
        "lna0123456789", "list sort contains no-contains merged no-merged points-at format column annotate message", "m"
    ),
    "git ls-files": _options(
        "cdmositkuvfz",
        "cached deleted modified others stage ignored exclude-standard directory full-name error-unmatch eol unmerged "
        "deduplicate no-empty-directory",
    ),
    "git rev-parse": _options(
        "q",
        "show-toplevel abbrev-ref verify short git-dir git-common-dir is-inside-work-tree show-prefix "
        "symbolic-full-name is-bare-repository all branches tags remotes quiet symbolic show-cdup absolute-git-dir",
    ),
    "git blame": _options(
        "lswfnetbpk0123456789",
        "line-porcelain porcelain show-name show-number show-email root date since reverse first-parent abbrev "
        "score-debug show-stats color-lines color-by-age",
        "LMC",
    ),
    "git grep": _options(
        "niwvEGFPlLcohHpWaIqzr0123456789",
        "line-number column ignore-case word-regexp invert-match extended-regexp basic-regexp perl-regexp "
        "fixed-strings files-with-matches name-only files-without-match count only-matching heading break "
        "show-function function-context after-context before-context context cached untracked color no-color and or "
        "not all-match quiet text max-depth recursive no-recursive full-name null threads max-count",
        "eABCm",
    ),
    "git describe": _options(
        "", "all tags contains abbrev candidates exact-match long match exclude always first-parent dirty broken"
    ),
    "git merge-base": _options("a", "all is-ancestor octopus independent fork-point"),
    "git add": _options("Anuv", "all no-all update verbose dry-run intent-to-add refresh ignore-errors"),
    "git commit": _options("aqs", "message all amend no-edit quiet signoff allow-empty", "m"),
    "git fetch": _options(
        "pqvtafkPn46",
        "all prune prune-tags tags no-tags quiet verbose dry-run force depth deepen unshallow progress jobs",
        "j",
    ),
}

# Programs that use no files and have no risky options.
BARE = names("echo pwd true false sleep seq basename dirname whoami id")

READERS = frozenset(SAFE) | BARE
"""Programs for which a prefix rule may be suggested: with any words they only read (or change only git's own data)."""

# For every program without a list of safe options.
RISKY_ANYWHERE = names(
    "exec exec-path upload-pack receive-pack open-files-in-pager ext-diff textconv script-shell to-command "
    "use-compress-program checkpoint-action info-script rsh rsh-command rsync-path pager config config-env config-file "
    "toolexec output output-document output-file post-renderer compress-program pre exec-batch init-command eval "
    "execute node-options require import loader files-from files0-from dereference-recursive hostname-bin "
    "unzip-command use-askpass proxy-command log-file"
)
RISKY: dict[str, ProgramOptions] = {
    "git clone": _options("uc"),
    "git ls-remote": _options("u"),
    "git fetch-pack": _options("u"),
    "git rebase": _options("x"),
    "git difftool": _options("x"),
    "git": _options(
        "oO",
        "no-index template contents pathspec-from-file file separate-git-dir git-dir work-tree edit-description editor "
        "exec-path namespace super-prefix extcmd tool smtp-server sendmail-cmd to-cmd cc-cmd",
    ),
    "npm": _options("C", "prefix userconfig globalconfig shell init-module viewer editor git"),
    "pnpm": _options("C", "dir shell-emulator"),
    "yarn": _options("", "cwd use-yarnrc"),
    "cargo": _options("CZ", "manifest-path target-dir"),
    "make": _options("fCEI", "file makefile directory include-dir"),
    "sort": _options("oT", "temporary-directory"),
    "tar": _options("IFTPhCU", "new-volume-script dereference absolute-names directory"),
    "rsync": _options("eLkF", "copy-links copy-dirlinks copy-unsafe-links password-file"),
    "scp": _options("oSFJ"),
    "sftp": _options("oSFJbD"),
    "curl": _options(
        "oOKDcwT",
        "remote-name remote-name-all output-dir dump-header cookie-jar trace trace-ascii stderr libcurl etag-save "
        "ssl-sessions hsts alt-svc write-out create-dirs netrc-file unix-socket abstract-unix-socket upload-file",
    ),
    "wget": _options("OoaPieB", "append-output directory-prefix input-file save-cookies base warc-file post-file"),
    "rg": _options("Lf", "follow file ignore-file"),
    "fd": _options("xXL", "follow base-directory"),
    "ag": _options("f", "follow path-to-ignore"),
    "tree": _options("lo", "fromfile"),
    "zip": _options("rRTb", "recurse-paths test-command"),
    "cp": _options("LH", "dereference"),
    "less": _options("koO", "lesskey-file lesskey-src"),
    "man": _options("PHCM", "html preprocessor manpath"),
    "kubectl": _options("", "kubeconfig cache-dir"),
    "helm": _options("", "kubeconfig"),
    "docker": _options("", "host entrypoint volume mount privileged"),
    "date": _options("fs", "file set"),
    "file": _options("fCm", "magic-file compile"),
    "ssh": _options("oFSE"),
    "gawk": _options("filEo"),
    "awk": _options("filEo"),
    "mawk": _options("fW"),
    "sed": _options("if", "in-place file"),
}
# Subcommands of git that run programs or change its settings: a rule for all of git does not cover them.
GIT_RUNNERS = names(
    "config bisect filter-branch submodule difftool mergetool credential daemon send-email instaweb hook maintenance"
)
# For programs whose options are whole words after a single dash.
RISKY_WORDS = {
    "find": names("-L -follow -files0-from -fprint -fprint0 -fprintf -fls"),
    "go": names("-exec -toolexec -o -overlay -modfile -vettool -C -ldflags -gcflags -asmflags -pkgdir"),
}

_ADDRESS = r"(?:(?:\d+|\$|/(?:[^/\\\n]|\\[^\n])*/)(?:,(?:\+?\d+|\$|/(?:[^/\\\n]|\\[^\n])*/))?)?"
_SED_SCRIPT = re.compile(
    rf"{_ADDRESS}[pdq=]|{_ADDRESS}s([/|,#])(?:(?!\1)[^\\\n]|\\[^\n])*\1(?:(?!\1)[^\\\n]|\\[^\n])*\1[gpiI\d]*"
)
_AWK_ACTS = re.compile(r"system|getline|[|>@]|ARG[VC]|close|ENVIRON|PROCINFO")


def reader_name(values: Sequence[str | None]) -> str | None:
    """Return the entry of READERS that lists the safe options of a command (`git log`, `ls`), or None."""
    if not values or values[0] is None:
        return None
    if len(values) > 1 and f"{values[0]} {values[1]}" in SAFE:
        return f"{values[0]} {values[1]}"
    return values[0] if values[0] in READERS else None


def option_risk(words: Sequence[Sequence[str]], named: int) -> str | None:
    """Explain why a command exceeds the purpose of a rule that names its first `named` words; None when it does not.

    `words` holds for each word of the command every text that it may expand to.
    """
    if not words or not words[0]:
        return None
    program = base_name(words[0][0])
    second = words[1][0] if len(words) > 1 and words[1] else ""
    listed = reader_name([program, second])
    if listed in BARE:
        return None
    risky = _Risky(program, second, listed)
    for at in range(max(named, 1 if listed is None else len(listed.split())), len(words)):
        for value in words[at]:
            if risky.word(value, first=at == 1):
                return f"a rule for {program} does not cover {value[:80]!r} unless it names it"
    if program == "sed" and named < len(words):
        return _sed_doubt(words, named)
    return None


class _Risky:
    def __init__(self, program: str, second: str, listed: str | None) -> None:
        self.program = program
        self.listed = listed
        self.ahead = second.startswith("-")  # options of the program itself come before its subcommand
        own, sub = (RISKY.get(name, ProgramOptions()) for name in (program, f"{program} {second}"))
        risky = ProgramOptions(own.flags + sub.flags, "", own.long | sub.long)
        self.options = risky if listed is None else SAFE[listed]

    def word(self, value: str, *, first: bool) -> bool:
        if not value.startswith("-") or value in ("-", "--"):
            return self.operand(value, first=first)
        if self.program in RISKY_WORDS:
            return value.split("=")[0].replace("--", "-") in RISKY_WORDS[self.program]
        if self.program == "git" and self.ahead and value.startswith(("-c", "-p", "--p")):
            return True
        name = value[2:].partition("=")[0]
        if value.startswith("--"):
            if self.listed is not None:
                return name not in self.options.long
            # Most programs accept an abbreviated option name.
            return any(each.startswith(name) for each in (*RISKY_ANYWHERE, *self.options.long))
        if self.listed is None:
            short = value[1:].partition("=")[0]
            return any(flag in self.options.flags for flag in value[1:]) or short in RISKY_ANYWHERE
        for flag in value[1:]:
            if flag in self.options.valued:
                return False
            if flag not in self.options.flags:
                return True
        return False

    def operand(self, value: str, *, first: bool) -> bool:
        """Return whether a word that is not an option still selects a command to run or a file to write."""
        match self.program:
            case "awk" | "gawk" | "mawk" | "nawk":
                return _AWK_ACTS.search(value) is not None
            case "git":
                return (first or self.ahead) and value in GIT_RUNNERS
            case "ps":
                return "e" in value
            case "make" | "gmake":
                return "=" in value
            case "tar":
                return first and any(flag in RISKY["tar"].flags for flag in value)
            case "less" | "more" | "vi" | "vim" | "view" | "man":
                return value.startswith("+")
            case "curl":
                return any(sign in value for sign in "[]{}")
        return False


def _sed_doubt(words: Sequence[Sequence[str]], named: int) -> str | None:
    """Explain why a sed script is risky: scripts can write files and run commands, and only plain ones are accepted."""
    scripts: list[tuple[int, str]] = []
    expected = False
    for at, values in enumerate(words[1:], 1):
        for value in values:
            if expected or (not value.startswith("-") and not scripts):
                scripts.append((at, value))
            elif value.startswith("--expression="):
                scripts.append((at, value.partition("=")[2]))
            elif value.startswith("-e") and value != "-e":
                scripts.append((at, value[2:]))
        expected = any(re.fullmatch(r"-\w*e|--expression", value) for value in values)
    bad = next((script for at, script in scripts if at >= named and _SED_SCRIPT.fullmatch(script) is None), None)
    return None if bad is None else f"a rule for sed does not cover the script {bad[:80]!r}"
