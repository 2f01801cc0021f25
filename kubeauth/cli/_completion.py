"""`kubeauth completion`: what makes a shell complete our commands."""

from __future__ import annotations

import argparse
from enum import StrEnum

from kubeauth.cli._ends import Status
from kubeauth.cli._flags import Flags, one_of
from kubeauth.cli._output import write


class Shell(StrEnum):
    bash = "bash"
    zsh = "zsh"
    fish = "fish"


class Options(Flags):
    shell: Shell


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "shell", type=one_of(Shell), choices=list(Shell), metavar="SHELL", help="bash, zsh or fish"
    )


def run(options: Options) -> int:
    """Print a script that makes a shell complete kubeauth's commands, flags and their values.

    Contexts, clusters, users and namespaces are those of the kubeconfig; no server is asked.

    For this shell alone:
      bash  source <(kubeauth completion bash)
      zsh   source <(kubeauth completion zsh)
      fish  kubeauth completion fish | source

    For every new one:
      bash  kubeauth completion bash > ~/.local/share/bash-completion/completions/kubeauth
      zsh   kubeauth completion zsh > "${fpath[1]}/_kubeauth"
      fish  kubeauth completion fish > ~/.config/fish/completions/kubeauth.fish

    The first needs the package bash-completion; without it, put the line above into ~/.bashrc. The second
    needs `autoload -U compinit; compinit` in ~/.zshrc.
    """
    write(_SCRIPTS[options.shell].encode())
    return Status.OK


# Bash splits behind : and =, and before @, which are in the names of many contexts: so the line is split
# anew, and of what is offered, that which bash takes for words of their own is left out. What is offered may
# be a name that a stranger gave to a context, and is quoted.
_BASH = r"""# bash completion for kubeauth
_kubeauth() {
    local line=${COMP_LINE:0:COMP_POINT} kept="" rest found kind word
    local -a words
    read -a words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    local current=${words[${#words[@]}-1]}
    rest=$current
    [[ $COMP_WORDBREAKS == *:* ]] && rest=${rest##*:}
    [[ $COMP_WORDBREAKS == *=* ]] && rest=${rest##*=}
    [[ $COMP_WORDBREAKS == *@* && $rest == *@* ]] && rest=@${rest##*@}
    kept=${current%"$rest"}
    COMPREPLY=()
    found=$("${words[0]}" __complete "${words[@]:1}" 2>/dev/null) || return 0
    while IFS=$'\t' read -r kind _; do
        [[ $kind == words ]] && continue
        if [[ $kind == files ]]; then
            compopt -o default 2>/dev/null || COMPREPLY=($(compgen -f -- "$rest"))
            return 0
        fi
        printf -v word %q "${kind#"$kept"}"
        COMPREPLY+=("$word")
    done <<<"$found"
}
complete -F _kubeauth kubeauth
"""

_ZSH = r"""#compdef kubeauth
_kubeauth() {
    local -a lines offered
    local line word
    lines=("${(@f)$("${(Q)words[1]}" __complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
    if [[ $lines[1] == files ]]; then
        compset -P '*='
        _files
        return
    fi
    for line in "${(@)lines[2,-1]}"; do
        word=${line%%$'\t'*}
        offered+=("${word//:/\\:}:${line#*$'\t'}")
    done
    _describe -t words kubeauth offered
}
if [[ $funcstack[1] == _kubeauth ]]; then
    _kubeauth "$@"
else
    compdef _kubeauth kubeauth
fi
"""

_FISH = r"""# fish completion for kubeauth
function __kubeauth_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l last (string unescape -- "$current"; or echo "$current")
    set -l lines ($words[1] __complete $words[2..-1] "$last" 2>/dev/null)
    if test "$lines[1]" = files
        __fish_complete_path (string replace -r -- '^--[^=]*=' '' "$current")
    else
        printf '%s\n' $lines[2..-1]
    end
end
complete -c kubeauth -f -a '(__kubeauth_complete)'
"""

_SCRIPTS = {Shell.bash: _BASH, Shell.zsh: _ZSH, Shell.fish: _FISH}
