"""`load_config`: from wherever the configuration is to one ClientConfig."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kubeauth._config.auth_provider import OidcConfig, OidcOptions, build_oidc_config
from kubeauth._config.client_config import ClientConfig, ConfigOrigin, set_origin
from kubeauth._config.environment import Environment
from kubeauth._config.files import (
    LoadedFiles,
    find_kubeconfig_paths,
    get_working_directory,
    is_same_for_other_processes,
    make_absolute,
    read_kubeconfigs,
    read_raw_token,
    try_open,
)
from kubeauth._config.in_cluster import is_in_cluster, load_in_cluster, read_in_cluster_namespace
from kubeauth._config.kubeconfig import Cluster, Kubeconfig, Overrides, User, decode_bytes, decode_mapping
from kubeauth._config.kuberc import load_kuberc_policy
from kubeauth._config.resolve import Selection, build_client_config, merge_kubeconfigs, select
from kubeauth._config.urls import InvalidURL, parse_server_url, uses_tls
from kubeauth._config.validate import validate_cluster, validate_tls_options, validate_user
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
        return loader.load_default()
    if isinstance(source, str | os.PathLike) and not is_document_text(source):
        return loader.load_file(os.fsdecode(source))
    decoded = decode_source(source)
    # From here on nothing may raise from a frame that still holds the document.
    del source
    return loader.load_document(decoded)


def build_config(
    master: str = "", kubeconfig: str = "", *, environment: Environment | None = None
) -> ClientConfig:
    """What a component's --master and --kubeconfig flags mean (K69).

    With neither, the pod's configuration; failing that, nothing: ~/.kube/config is not read.
    """
    environment = environment or Environment()
    if not master and not kubeconfig:
        try:
            return load_in_cluster(environment, Overrides())
        except InClusterError as error:
            logger.warning("neither --kubeconfig nor --master was given, and: %s", error)
    loader = Loader(overrides=Overrides(cluster_info=Cluster(server=master)), environment=environment)
    return loader.load_file(kubeconfig) if kubeconfig else loader.load_files(())


def load_from_origin(origin: ConfigOrigin, *, environment: Environment | None = None) -> ClientConfig:
    """The config that another process made by this origin, from the files of this one."""
    environment = environment or Environment()
    if origin.in_cluster:
        return load_in_cluster(environment, Overrides(namespace=origin.namespace))
    if not any(os.path.exists(path) for path in origin.paths):
        raise KubeConfigError(
            "a ClientConfig is sent to another process as a origin, not with its secrets, and none of its "
            f"files is here: {', '.join(origin.paths)}. Make the same kubeconfig available at that path.",
            path=origin.paths[0],
        )
    loader = Loader(
        overrides=Overrides(
            context=origin.context, cluster=origin.cluster, user=origin.user, namespace=origin.namespace
        ),
        policy=origin.plugin_policy,
        options=origin.exec_options,
        oidc_options=origin.oidc_options,
        environment=environment,
        # Whatever became of the files, a origin for one cluster must not turn into the pod's own.
        allow_in_cluster=False,
    )
    return loader.load_files(origin.paths)


def is_document_text(source: str | os.PathLike[str]) -> bool:
    """Whether somebody passed what is in a kubeconfig, instead of its path. It would hold secrets."""
    if not isinstance(source, str) or not any(sign in source for sign in ("\n", "{", ": ")):
        return False
    return not os.path.exists(source)


def decode_source(source: object) -> Kubeconfig | list[Problem]:
    """A document that is at hand already, or why it is none."""
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
class _EmptyConfig:
    """client-go's "empty config": the one failure that means "try the pod's configuration" (K29, K66)."""

    why: str

    def error(self) -> KubeConfigError:
        return KubeConfigError.from_problems([Problem(NO_CONFIG, hint=self.why)], prefix=INVALID)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loader:
    """One call of load_config: what was asked for, and where."""

    overrides: Overrides
    policy: PluginPolicy | None = None
    options: ExecOptions | None = None
    oidc_options: OidcOptions | None = None
    environment: Environment = field(default_factory=Environment)
    allow_in_cluster: bool = True
    kuberc: Callable[[Environment], PluginPolicy] = load_kuberc_policy

    def load_default(self) -> ClientConfig:
        """From the KUBECONFIG chain or ~/.kube/config."""
        found = find_kubeconfig_paths(self.environment)
        return self.load_files(found.paths, from_environment=found.from_environment)

    def load_file(self, path: str) -> ClientConfig:
        """From one file, which must exist and is never merged (K14)."""
        return self.resolve_files(self.read_file(path), (path,))

    def read_file(self, path: str) -> LoadedFiles:
        """What is in one file, which must exist (K14)."""
        found = read_kubeconfigs((path,))
        if found.missing or not path:
            hint = "Check the path."
            if path.startswith("~"):
                hint = "`~` is not expanded: use os.path.expanduser."
            elif not path:
                hint = "An empty path names no file; pass None for the default kubeconfig."
            raise KubeConfigError.from_problems(
                [Problem(f'kubeconfig "{path}" does not exist', path, hint=hint)]
            )
        return found

    def load_files(self, paths: Sequence[str], *, from_environment: bool = False) -> ClientConfig:
        """From these files, merged, or from the pod if they come to nothing (K66)."""
        return self.resolve_files(self.read_files(paths, from_environment=from_environment), paths)

    def read_files(self, paths: Sequence[str], *, from_environment: bool) -> LoadedFiles:
        """What is in these files. Those of KUBECONFIG are missed if none of them exists."""
        found = read_kubeconfigs(paths)
        if from_environment and found.missing and not found.configs:
            logger.warning("Config not found: %s", ", ".join(found.missing))
        return found

    def resolve_files(self, found: LoadedFiles, paths: Sequence[str]) -> ClientConfig:
        """From files that have been read, or from the pod if they come to nothing (K66)."""
        if found.problems:
            raise KubeConfigError.from_problems(found.problems)
        config = self._resolve(
            merge_kubeconfigs(found.configs), paths=tuple(make_absolute(path) for path in paths if path)
        )
        in_pod = self.allow_in_cluster and is_in_cluster(self.environment)
        if not in_pod and isinstance(config, _EmptyConfig):
            raise config.error()
        if isinstance(config, _EmptyConfig) or (in_pod and self._is_default(config)):
            logger.debug("no kubeconfig; using the in-cluster configuration")
            return self._with_origin(load_in_cluster(self.environment, self.overrides), None)
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
        return not isinstance(bare, _EmptyConfig) and bare == replace(
            config, namespace=bare.namespace, context=bare.context
        )

    def load_document(self, decoded: Kubeconfig | list[Problem]) -> ClientConfig:
        """From a document that has no file behind it: no merging, no falling back to the pod."""
        if not isinstance(decoded, Kubeconfig):
            raise KubeConfigError.from_problems(decoded, prefix="error loading config: ")
        return self.resolve(decoded, ())

    def resolve(self, kubeconfig: Kubeconfig, paths: tuple[str, ...]) -> ClientConfig:
        """From a kubeconfig that was read, from these files if any; never from the pod."""
        config = self._resolve(kubeconfig, paths=paths)
        if isinstance(config, _EmptyConfig):
            raise config.error()
        return config

    def _resolve(self, config: Kubeconfig, *, paths: tuple[str, ...]) -> ClientConfig | _EmptyConfig:
        selected = select(config, self.overrides, cwd=get_working_directory())
        if isinstance(selected, Problem):
            raise KubeConfigError.from_problems([selected])
        cluster, user = selected.cluster, selected.user
        problems = [*selected.problems, *validate_user(selected.user_name, user, try_open)]
        if cluster == Cluster() and not problems:
            return _EmptyConfig(_explain_empty(selected, config, paths))
        if cluster != Cluster():
            problems += validate_cluster(selected.cluster_name, cluster, try_open)
        elif not selected.problems:
            field = f'contexts["{selected.context_name}"].context.cluster' if selected.context_name else None
            why = _explain_empty(selected, config, paths)
            problems.append(
                Problem("cluster has no server defined", selected.context.origin or None, field, why)
            )
        server = _parse_server(selected.cluster_name, cluster) if cluster.server else ""
        if isinstance(server, Problem):
            problems.append(server)
        tls = isinstance(server, str) and uses_tls(server)
        problems += validate_tls_options(selected.cluster_name, cluster, selected.user_name, user, tls)
        token = _read_initial_token(selected.user_name, user) if tls else None
        if isinstance(token, Problem):
            problems.append(token)
        oidc = self._build_oidc(selected) if tls else None
        if isinstance(oidc, list):
            problems += oidc
        if problems or isinstance(server, Problem) or isinstance(token, Problem) or isinstance(oidc, list):
            raise KubeConfigError.from_problems(problems, prefix=INVALID)
        return self._build(selected, server, token, oidc, paths)

    def _build_oidc(self, selected: Selection) -> OidcConfig | list[Problem] | None:
        options, cwd = self.oidc_options or OidcOptions(), get_working_directory()
        found = build_oidc_config(
            selected.user_name, selected.user, options=options, cwd=cwd, try_open=try_open
        )
        if isinstance(found, OidcConfig) and found.path and not os.path.isfile(found.path):
            # A pipe, as of `<(process substitution)`: it is read once, and its name is another's next.
            return replace(found, path=None, user=None)
        return found

    def _build(
        self,
        selected: Selection,
        server: str,
        token: Secret[str] | None,
        oidc: OidcConfig | None,
        paths: tuple[str, ...],
    ) -> ClientConfig:
        namespace = selected.namespace
        if not namespace and is_in_cluster(self.environment):
            namespace = read_in_cluster_namespace(self.environment)
        policy = self.policy
        if policy is None:
            # A user without a plugin has no business with the policy, nor with a damaged kuberc.
            policy = self.kuberc(self.environment) if selected.user.exec else PluginPolicy.allow_all()
        config = build_client_config(
            selected,
            server=server,
            token=token,
            namespace=namespace or "default",
            options=self.options or ExecOptions(),
            policy=policy,
            oidc=oidc,
        )
        origin = ConfigOrigin(
            paths=paths,
            context=selected.context_name,
            cluster=self.overrides.cluster,
            user=self.overrides.user,
            namespace=self.overrides.namespace,
            exec_options=self.options,
            oidc_options=self.oidc_options,
            plugin_policy=policy if config.exec else self.policy,
        )
        travels = bool(paths) and all(map(is_same_for_other_processes, paths))
        return self._with_origin(config, origin if travels else None)

    def _with_origin(self, config: ClientConfig, origin: ConfigOrigin | None) -> ClientConfig:
        """`config` with its origin, unless it was changed by more than names: those may be secrets."""
        overridden = (self.overrides.cluster_info, self.overrides.user_info, self.overrides.cluster_defaults)
        if overridden != (Cluster(), User(), Cluster()):
            return set_origin(config, None)
        return set_origin(config, origin) if origin else config


def _parse_server(name: str, cluster: Cluster) -> str | Problem:
    try:
        return parse_server_url(cluster.server)
    except InvalidURL as error:
        field = f'clusters["{name}"].cluster.server'
        return Problem(
            f"invalid server: {error}", cluster.origin or None, field, "Write it as https://host:port."
        )


def _read_initial_token(name: str, user: User) -> Secret[str] | Problem | None:
    """`token`; else what the token file holds now, as it is (K58-K60)."""
    if user.token or not user.token_file:
        return user.token or None
    try:
        return read_raw_token(user.token_file)
    except TokenFileError as error:
        hint = "Check the path, and that whatever writes the token has run."
        return Problem(str(error), user.origin or None, f'users["{name}"].user.tokenFile', hint)


def _explain_empty(selected: Selection, config: Kubeconfig, paths: Sequence[str]) -> str:
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
