"""`load_config`: from wherever the configuration is to one ClientConfig."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kubeauth._config._build import build
from kubeauth._config._client_config import ClientConfig, Recipe, with_recipe
from kubeauth._config._files import (
    Found,
    absolute,
    chain,
    means_the_same_elsewhere,
    read_chain,
    unreadable,
    working_directory,
)
from kubeauth._config._in_cluster import in_cluster_namespace, in_cluster_possible, load_in_cluster
from kubeauth._config._kuberc import kuberc_policy
from kubeauth._config._merge import merge
from kubeauth._config._model import Cluster, Kubeconfig, Overrides, User
from kubeauth._config._oidc import OidcConfig, OidcOptions
from kubeauth._config._provider import oidc_of
from kubeauth._config._select import Selection, select
from kubeauth._config._server import AddressError, server_url, uses_tls
from kubeauth._config._surroundings import Surroundings
from kubeauth._config._token_file import read_raw_token
from kubeauth._config._validate import cluster_problems, transport_problems, user_problems
from kubeauth._exec.config import ExecOptions, PluginPolicy
from kubeauth._secret import Secret
from kubeauth.errors import InClusterError, KubeConfigError, Problem, TokenFileError

logger = logging.getLogger("kubeauth.config")

INVALID = "invalid configuration: "
NO_CONFIG = "no configuration has been provided"


def load_config(
    source: str | os.PathLike[str] | bytes | Mapping[str, object] | None = None,
    *,
    context: str | None = None,
    cluster: str | None = None,
    user: str | None = None,
    namespace: str | None = None,
    plugin_policy: PluginPolicy | None = None,
    exec_options: ExecOptions | None = None,
    oidc_options: OidcOptions | None = None,
) -> ClientConfig:
    """The configuration that kubectl would use, resolved.

    Without a source: the files in KUBECONFIG merged, else ~/.kube/config, else that of the pod this
    runs in. A path is read alone and must exist. Bytes (YAML or JSON) and an already parsed document
    work too; relative paths in those count from the working directory.

    `context`, `cluster`, `user` and `namespace` choose by name over what the kubeconfig says. An exec
    plugin runs under `plugin_policy`, or else under the policy in the user's kuberc, and with
    `exec_options`; tokens of an OIDC issuer are renewed with `oidc_options`. Nothing is run or connected to
    here.

    Raises KubeConfigError with everything that is wrong, each with file, field and what to do.
    """
    overrides = Overrides(
        context=context or "", cluster=cluster or "", user=user or "", namespace=namespace or ""
    )
    loader = Loader(
        overrides=overrides, policy=plugin_policy, options=exec_options, oidc_options=oidc_options
    )
    if source is None:
        return loader.default()
    if isinstance(source, str | os.PathLike) and not is_text(source):
        return loader.explicit(os.fsdecode(source))
    decoded = decoded_from(source)
    # From here on nothing may raise from a frame that still holds the document.
    del source
    return loader.document(decoded)


def build_config(
    master: str = "", kubeconfig: str = "", *, surroundings: Surroundings | None = None
) -> ClientConfig:
    """What a component's --master and --kubeconfig flags mean (K69).

    With neither, the pod's configuration; failing that, nothing: ~/.kube/config is not read.
    """
    surroundings = surroundings or Surroundings()
    if not master and not kubeconfig:
        try:
            return load_in_cluster(surroundings, Overrides())
        except InClusterError as error:
            logger.warning("neither --kubeconfig nor --master was given, and: %s", error)
    loader = Loader(overrides=Overrides(cluster_info=Cluster(server=master)), surroundings=surroundings)
    return loader.explicit(kubeconfig) if kubeconfig else loader.files(())


def load_recipe(recipe: Recipe, *, surroundings: Surroundings | None = None) -> ClientConfig:
    """The config that another process made by this recipe, from the files of this one."""
    surroundings = surroundings or Surroundings()
    if recipe.in_cluster:
        return load_in_cluster(surroundings, Overrides(namespace=recipe.namespace))
    if not any(os.path.exists(path) for path in recipe.paths):
        raise KubeConfigError(
            "a ClientConfig is sent to another process as a recipe, not with its secrets, and none of its "
            f"files is here: {', '.join(recipe.paths)}. Make the same kubeconfig available at that path.",
            path=recipe.paths[0],
        )
    loader = Loader(
        overrides=Overrides(
            context=recipe.context, cluster=recipe.cluster, user=recipe.user, namespace=recipe.namespace
        ),
        policy=recipe.plugin_policy,
        options=recipe.exec_options,
        oidc_options=recipe.oidc_options,
        surroundings=surroundings,
        # Whatever became of the files, a recipe for one cluster must not turn into the pod's own.
        may_be_in_cluster=False,
    )
    return loader.files(recipe.paths)


def is_text(source: str | os.PathLike[str]) -> bool:
    """Whether somebody passed what is in a kubeconfig, instead of its path. It would hold secrets."""
    if not isinstance(source, str) or not any(sign in source for sign in ("\n", "{", ": ")):
        return False
    return not os.path.exists(source)


def decoded_from(source: object) -> Kubeconfig | list[Problem]:
    """A document that is at hand already, or why it is none."""
    # The codec is imported when there is something to decode, not before.
    from kubeauth._config._source import decode_bytes, decode_mapping

    if isinstance(source, Mapping):
        return decode_mapping(source)
    if isinstance(source, bytes | bytearray | memoryview):
        return decode_bytes(bytes(source))
    if isinstance(source, str):
        hint = "For the text of a kubeconfig pass bytes: load_config(text.encode())."
        return [
            Problem("a str is taken for a path, and this one looks like the text of a kubeconfig", hint=hint)
        ]
    kind = type(source).__name__
    return [
        Problem(
            f"load_config takes a path, bytes or a parsed document, not {kind}", hint="Pass one of these."
        )
    ]


@dataclass(frozen=True, slots=True)
class _Empty:
    """client-go's "empty config": the one failure that means "try the pod's configuration" (K29, K66)."""

    why: str

    def error(self) -> KubeConfigError:
        return KubeConfigError.of([Problem(NO_CONFIG, hint=self.why)], prefix=INVALID)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loader:
    """One call of load_config: what was asked for, and where."""

    overrides: Overrides
    policy: PluginPolicy | None = None
    options: ExecOptions | None = None
    oidc_options: OidcOptions | None = None
    surroundings: Surroundings = field(default_factory=Surroundings)
    may_be_in_cluster: bool = True
    kuberc: Callable[[Surroundings], PluginPolicy] = kuberc_policy

    def default(self) -> ClientConfig:
        """From the KUBECONFIG chain or ~/.kube/config."""
        found = chain(self.surroundings)
        return self.files(found.paths, from_environment=found.from_environment)

    def explicit(self, path: str) -> ClientConfig:
        """From one file, which must exist and is never merged (K14)."""
        return self.merged(self.found_at(path), (path,))

    def found_at(self, path: str) -> Found:
        """What is in one file, which must exist (K14)."""
        found = read_chain((path,))
        if found.missing or not path:
            hint = "Check the path."
            if path.startswith("~"):
                hint = "`~` is not expanded: use os.path.expanduser."
            elif not path:
                hint = "An empty path names no file; pass None for the default kubeconfig."
            raise KubeConfigError.of([Problem(f'kubeconfig "{path}" does not exist', path, hint=hint)])
        return found

    def files(self, paths: Sequence[str], *, from_environment: bool = False) -> ClientConfig:
        """From these files, merged, or from the pod if they come to nothing (K66)."""
        return self.merged(self.found_in(paths, from_environment=from_environment), paths)

    def found_in(self, paths: Sequence[str], *, from_environment: bool) -> Found:
        """What is in these files. Those of KUBECONFIG are missed if none of them exists."""
        found = read_chain(paths)
        if from_environment and found.missing and not found.configs:
            logger.warning("Config not found: %s", ", ".join(found.missing))
        return found

    def merged(self, found: Found, paths: Sequence[str]) -> ClientConfig:
        """From files that have been read, or from the pod if they come to nothing (K66)."""
        if found.problems:
            raise KubeConfigError.of(found.problems)
        config = self._resolve(merge(found.configs), paths=tuple(absolute(path) for path in paths if path))
        in_pod = self.may_be_in_cluster and in_cluster_possible(self.surroundings)
        if not in_pod and isinstance(config, _Empty):
            raise config.error()
        if isinstance(config, _Empty) or (in_pod and self._is_default(config)):
            logger.debug("no kubeconfig; using the in-cluster configuration")
            return self._portable(load_in_cluster(self.surroundings, self.overrides), None)
        return config

    def _is_default(self, config: ClientConfig) -> bool:
        """Whether this is what the caller's own defaults come to, without any kubeconfig (K66)."""
        defaults = self.overrides.cluster_defaults
        if not defaults.server:
            return False
        try:
            loader = replace(self, overrides=Overrides(cluster_defaults=defaults))
            bare = loader._resolve(Kubeconfig(), paths=())
        except KubeConfigError:
            return False
        # The namespace and the context's name are no part of client-go's rest.Config.
        return not isinstance(bare, _Empty) and bare == replace(
            config, namespace=bare.namespace, context=bare.context
        )

    def document(self, decoded: Kubeconfig | list[Problem]) -> ClientConfig:
        """From a document that has no file behind it: no merging, no falling back to the pod."""
        if not isinstance(decoded, Kubeconfig):
            raise KubeConfigError.of(decoded, prefix="error loading config: ")
        return self.of(decoded, ())

    def of(self, kubeconfig: Kubeconfig, paths: tuple[str, ...]) -> ClientConfig:
        """From a kubeconfig that was read, from these files if any; never from the pod."""
        config = self._resolve(kubeconfig, paths=paths)
        if isinstance(config, _Empty):
            raise config.error()
        return config

    def _resolve(self, config: Kubeconfig, *, paths: tuple[str, ...]) -> ClientConfig | _Empty:
        selected = select(config, self.overrides, cwd=working_directory())
        if isinstance(selected, Problem):
            raise KubeConfigError.of([selected])
        cluster, user = selected.cluster, selected.user
        problems = [*selected.problems, *user_problems(selected.user_name, user, unreadable)]
        if cluster == Cluster() and not problems:
            return _Empty(_why_empty(selected, config, paths))
        if cluster != Cluster():
            problems += cluster_problems(selected.cluster_name, cluster, unreadable)
        elif not selected.problems:
            field = f'contexts["{selected.context_name}"].context.cluster' if selected.context_name else None
            why = _why_empty(selected, config, paths)
            problems.append(
                Problem("cluster has no server defined", selected.context.origin or None, field, why)
            )
        server = _server(selected.cluster_name, cluster) if cluster.server else ""
        if isinstance(server, Problem):
            problems.append(server)
        tls = isinstance(server, str) and uses_tls(server)
        problems += transport_problems(selected.cluster_name, cluster, selected.user_name, user, tls)
        token = _initial_token(selected.user_name, user) if tls else None
        if isinstance(token, Problem):
            problems.append(token)
        oidc = self._oidc(selected) if tls else None
        if isinstance(oidc, list):
            problems += oidc
        if problems or isinstance(server, Problem) or isinstance(token, Problem) or isinstance(oidc, list):
            raise KubeConfigError.of(problems, prefix=INVALID)
        return self._built(selected, server, token, oidc, paths)

    def _oidc(self, selected: Selection) -> OidcConfig | list[Problem] | None:
        options, cwd = self.oidc_options or OidcOptions(), working_directory()
        found = oidc_of(selected.user_name, selected.user, options=options, cwd=cwd, unreadable=unreadable)
        if isinstance(found, OidcConfig) and found.path and not os.path.isfile(found.path):
            # A pipe, as of `<(process substitution)`: it is read once, and its name is another's next.
            return replace(found, path=None, user=None)
        return found

    def _built(
        self,
        selected: Selection,
        server: str,
        token: Secret[str] | None,
        oidc: OidcConfig | None,
        paths: tuple[str, ...],
    ) -> ClientConfig:
        namespace = selected.namespace
        if not namespace and in_cluster_possible(self.surroundings):
            namespace = in_cluster_namespace(self.surroundings)
        policy = self.policy
        if policy is None:
            # A user without a plugin has no business with the policy, nor with a damaged kuberc.
            policy = self.kuberc(self.surroundings) if selected.user.exec else PluginPolicy.allow_all()
        config = build(
            selected,
            server=server,
            token=token,
            namespace=namespace or "default",
            options=self.options or ExecOptions(),
            policy=policy,
            oidc=oidc,
        )
        recipe = Recipe(
            paths=paths,
            context=selected.context_name,
            cluster=self.overrides.cluster,
            user=self.overrides.user,
            namespace=self.overrides.namespace,
            exec_options=self.options,
            oidc_options=self.oidc_options,
            plugin_policy=policy if config.exec else self.policy,
        )
        travels = bool(paths) and all(map(means_the_same_elsewhere, paths))
        return self._portable(config, recipe if travels else None)

    def _portable(self, config: ClientConfig, recipe: Recipe | None) -> ClientConfig:
        """`config` with its recipe, unless it was changed by more than names: those may be secrets."""
        overridden = (self.overrides.cluster_info, self.overrides.user_info, self.overrides.cluster_defaults)
        if overridden != (Cluster(), User(), Cluster()):
            return with_recipe(config, None)
        return with_recipe(config, recipe) if recipe else config


def _server(name: str, cluster: Cluster) -> str | Problem:
    try:
        return server_url(cluster.server)
    except AddressError as error:
        field = f'clusters["{name}"].cluster.server'
        return Problem(
            f"invalid server: {error}", cluster.origin or None, field, "Write it as https://host:port."
        )


def _initial_token(name: str, user: User) -> Secret[str] | Problem | None:
    """`token`; else what the token file holds now, as it is (K58-K60)."""
    if user.token or not user.token_file:
        return user.token or None
    try:
        return read_raw_token(user.token_file)
    except TokenFileError as error:
        hint = "Check the path, and that whatever writes the token has run."
        return Problem(str(error), user.origin or None, f'users["{name}"].user.tokenFile', hint)


def _why_empty(selected: Selection, config: Kubeconfig, paths: Sequence[str]) -> str:
    context, cluster = selected.context_name, selected.cluster_name
    if cluster:
        return f'The context "{context}" names the cluster "{cluster}", which is not there.'
    if context:
        return f'The context "{context}" names no cluster.'
    if config.contexts:
        names = ", ".join(sorted(config.contexts)[:10])
        return f"No current-context is set. Pass context= or run: kubectl config use-context NAME ({names})"
    looked = ", ".join(path if os.path.exists(path) else f"{path} (does not exist)" for path in paths)
    return f"Set KUBECONFIG, or pass a path. Looked at: {looked or 'nothing'}."
