"""Files that make programs run commands later: start-up files, hooks, keys, settings of tools. Tables.

Unless a rule names such a file, a person is asked before it is written, even inside the session's folders.
"""

from fairlead.sessions.permissions.name_sets import names

# Names anywhere in a path.
_NAMES = names(
    ".git .hg .svn .cursor .bashrc .bash_profile .bash_login .bash_logout .bash_aliases "
    ".bash_history .profile .zshrc .zshenv .zprofile .zlogin .zlogout .zsh_plugins .kshrc .cshrc .tcshrc .login "
    ".logout .inputrc .oh-my-zsh .antigenrc .xonshrc .ssh .gnupg .gitconfig .git-credentials .gitmodules .hgrc .netrc "
    ".pgpass .aws .azure .gcloud .kube .docker .husky .githooks .envrc .direnvrc .pre-commit-config.yaml lefthook.yml "
    ".lefthook.yml .overcommit.yml .npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs .pypirc .pip .condarc .gemrc .bundle "
    ".sbtopts .mavenrc .bazelrc .curlrc .wgetrc .vscode .idea .devcontainer .vimrc .gvimrc .vim .nvimrc .exrc .emacs "
    ".emacs.d .spacemacs .nanorc .tmux.conf .screenrc .xinitrc .xprofile .xsession .xsessionrc .xresources "
    ".pam_environment .gdbinit .lldbinit .irbrc .pryrc .rprofile .pythonrc .pdbrc .psqlrc .sqliterc .mailcap .forward "
    ".procmailrc .crontab crontab crontabs .asdfrc .tool-versions mise.toml .mise.toml .terraformrc .ackrc .lesskey "
    ".less .lessfilter .rhosts .shosts .k5login .vnc .mozilla .thunderbird"
)
# Names after another name.
_PAIRS = {
    ".config": names(
        "fairlead systemd autostart fish git nvim vim environment.d plasma-workspace gh hub pip npm yarn nushell kitty "
        "alacritty wezterm tmux direnv mise zsh sway i3 hypr powershell containers helm code cursor zed ranger mpv lf "
        "opencode goose"
    ),
    ".local": names("bin"),
    ".local/share": names("applications systemd dbus-1 nautilus kservices5 zsh bash-completion fairlead"),
    ".cargo": names("config config.toml env bin credentials credentials.toml"),
    ".gradle": names("init.gradle init.d gradle.properties"),
    ".m2": names("settings.xml"),
    ".ipython": names("profile_default"),
    ".jupyter": names("jupyter_notebook_config.py"),
    ".github": names("workflows actions"),
    ".circleci": names("config.yml"),
}


def is_protected(place: str, agent_files: frozenset[str]) -> bool:
    """Return whether a place is, or is inside, something that makes programs run commands. Case does not matter.

    `agent_files` are the names of the files that configure agents (`AgentKind.own_files`)."""
    parts = [part for part in place.casefold().split("/") if part]
    return any(
        part in _NAMES
        or part in agent_files
        or part in _PAIRS.get("/".join(parts[max(at - 1, 0) : at]), ())
        or part in _PAIRS.get("/".join(parts[max(at - 2, 0) : at]), ())
        for at, part in enumerate(parts)
    )
