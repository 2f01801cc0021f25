"""Whether a plugin may ask a person (X19, X20). Pure."""

from __future__ import annotations

from kubeauth._exec._values import ExecOptions


def interactive(mode: str, options: ExecOptions, *, is_terminal: bool) -> bool | str:
    """Whether the plugin gets our standard input; or, in client-go's words, why it cannot be run at all."""
    if mode == "Never":
        return False
    if mode == "IfAvailable":
        return is_terminal and not options.stdin_unavailable
    if mode == "Always":
        # In this order: without a terminal it does not matter who else reads from it.
        if not is_terminal:
            return "standard input is not a terminal"
        if options.stdin_unavailable:
            message = options.stdin_unavailable_message
            return f"standard input is unavailable{message and f': {message}'}"
        return True
    return f'unknown interactiveMode: "{mode}"'
