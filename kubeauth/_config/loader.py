"""Load a ClientConfig from kubeconfig files, a document, flags, or the pod: `load_config` and `Loader`."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kubeauth._config.auth_provider import OidcConfig, OidcOptions, build_oidc_config
from kubeauth._config.client_config import ClientConfig, ConfigOrigin, set_origin
from kubeauth._config.environment import Environment
from kubeauth._config.files import (
    find_kubeconfig_paths,
    find_open_problem,
    get_working_directory,
    is_shared_path,
    make_absolute,
    read_raw_token,
)
from kubeauth._config.in_cluster import is_in_cluster, load_in_cluster, read_in_cluster_namespace
from kubeauth._config.kubeconfig import LoadedFiles, Overrides, decode_bytes, decode_mapping, read_kubeconfigs
from kubeauth._config.kuberc import load_kuberc_policy
from kubeauth._config.resolve import Selection, build_client_config, merge_kubeconfigs, select
from kubeauth._config.urls import InvalidURL, parse_server_url, uses_tls
from kubeauth._config.validate import validate_cluster, validate_tls_options, validate_user
from kubeauth._exec.config import ExecOptions, PluginPolicy
from kubeauth._secret import Secret
from kubeauth.errors import InClusterError, KubeConfigError, Problem, TokenFileError
from kubeauth.schemas._kubeconfig import NO_CLUSTER, NO_USER, Cluster, Kubeconfig, User

logger = logging.getLogger("kubeauth.config")

INVALID = "invalid configuration: "
NO_CONFIG = "no configuration has been provided"


def load_config(
    source: str | os.PathLike[str] | bytes | Mapping[str, object] | Kubeconfig | None = None,
    *,
    context: str | None = None,
    cluster: str | None = None,
    user: str | None = None,
    namespace: str | None = None,
    plugin_policy: PluginPolicy | None = None,
    exec_options: ExecOptions | None = None,
    oidc_options: OidcOptions | None = None,
) -> ClientConfig:
    """Load the configuration that kubectl would use.

    Without `source`, load the merged files in KUBECONFIG, else ~/.kube/config, else the in-cluster
    configuration. With a path, load only that file, which must exist. `source` may also be the content of a
    kubeconfig: bytes (YAML or JSON), a parsed document, or a `kubeauth.schemas.Kubeconfig`. Relative paths in
    it are relative to the working directory.

    `context`, `cluster`, `user` and `namespace` override what the kubeconfig selects. `plugin_policy` decides
    which exec plugins may run; without it, the policy in the user's kuberc applies. `exec_options` say how an
    exec plugin is run, `oidc_options` how OIDC tokens are refreshed. Loading runs no plugin and opens no
    connection.

    Raises KubeConfigError with all problems; each has the file, the field and a hint. Raises InClusterError
    if the in-cluster configuration cannot be loaded.
    """
    overrides = Overrides(
        context=context or "", cluster=cluster or "", user=user or "", namespace=namespace or ""
    )
    loader = Loader(
        overrides=overrides,
        plugin_policy=plugin_policy,
        exec_options=exec_options,
        oidc_options=oidc_options,
    )
    if source is None:
        return loader.load_default()
    if isinstance(source, str | os.PathLike) and not is_document_text(source):
        return loader.load_file(os.fsdecode(source))
    decoded = decode_source(source)
    # Delete the document, which may contain secrets, so that no traceback refers to it.
    del source
    return loader.load_document(decoded)


def build_config(
    master: str = "", kubeconfig: str = "", *, environment: Environment | None = None
) -> ClientConfig:
    """Build the config for a component's --master and --kubeconfig flags (K69).

    With neither, load the in-cluster configuration. ~/.kube/config is never read.
    """
    environment = environment or Environment()
    if not master and not kubeconfig:
        try:
            return load_in_cluster(environment, Overrides())
        except InClusterError as error:
            logger.warning("Neither --kubeconfig nor --master was specified: %s", error)
    loader = Loader(overrides=Overrides(cluster_info=Cluster(server=master)), environment=environment)
    return loader.load_file(kubeconfig) if kubeconfig else loader.load_files(())


def load_from_origin(origin: ConfigOrigin, *, environment: Environment | None = None) -> ClientConfig:
    """Load the config that another process loaded, from the files of this machine."""
    environment = environment or Environment()
    if origin.in_cluster:
        return load_in_cluster(environment, Overrides(namespace=origin.namespace))
    if not any(os.path.exists(path) for path in origin.paths):
        raise KubeConfigError(
            "cannot unpickle the ClientConfig: a pickle contains the paths of the kubeconfig files and not "
            f"their secrets, and none of these files exists here: {', '.join(origin.paths)}. Make the same "
            "kubeconfig available at that path.",
            path=origin.paths[0],
        )
    loader = Loader(
        overrides=Overrides(
            context=origin.context, cluster=origin.cluster, user=origin.user, namespace=origin.namespace
        ),
        plugin_policy=origin.plugin_policy,
        exec_options=origin.exec_options,
        oidc_options=origin.oidc_options,
        environment=environment,
        # If the files have become empty, a config for another cluster must not become the in-cluster one.
        allow_in_cluster=False,
    )
    return loader.load_files(origin.paths)


def is_document_text(source: str | os.PathLike[str]) -> bool:
    """Return whether `source` is the text of a kubeconfig, and not a path. The text may contain secrets."""
    if not isinstance(source, str) or not any(marker in source for marker in ("\n", "{", ": ")):
        return False
    return not os.path.exists(source)


def decode_source(source: object) -> Kubeconfig | list[Problem]:
    """Decode a kubeconfig that is not in a file, or return its problems."""
    if isinstance(source, Kubeconfig):
        return source
    if isinstance(source, Mapping):
        return decode_mapping(source)
    if isinstance(source, bytes | bytearray | memoryview):
        return decode_bytes(bytes(source))
    if isinstance(source, str):
        hint = "To pass the text of a kubeconfig, encode it: load_config(text.encode())."
        return [Problem("a str must be a path, but this one looks like the text of a kubeconfig", hint=hint)]
    kind = type(source).__name__
    return [
        Problem(
            f"load_config takes a path, bytes, a parsed document or a Kubeconfig, not {kind}",
            hint="Pass one of these.",
        )
    ]


@dataclass(frozen=True, slots=True)
class _EmptyConfig:
    """client-go's "empty config": the only failure after which the in-cluster config is tried (K29, K66)."""

    hint: str

    def error(self) -> KubeConfigError:
        return KubeConfigError.from_problems([Problem(NO_CONFIG, hint=self.hint)], prefix=INVALID)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loader:
    """Loads configs with the same overrides and options."""

    overrides: Overrides
    plugin_policy: PluginPolicy | None = None
    exec_options: ExecOptions | None = None
    oidc_options: OidcOptions | None = None
    environment: Environment = field(default_factory=Environment)
    allow_in_cluster: bool = True
    load_policy: Callable[[Environment], PluginPolicy] = load_kuberc_policy
    """Called if `plugin_policy` is None and the selected user has an exec plugin."""

    def load_default(self) -> ClientConfig:
        """Load the files in KUBECONFIG, else ~/.kube/config, else the in-cluster configuration (K66)."""
        kubeconfig = find_kubeconfig_paths(self.environment)
        return self.load_files(kubeconfig.paths, from_environment=kubeconfig.from_environment)

    def load_file(self, path: str) -> ClientConfig:
        """Load one file, which must exist and is not merged with others (K14)."""
        return self.resolve_or_in_cluster(self.read_file(path), (path,))

    def read_file(self, path: str) -> LoadedFiles:
        """Read one file. Raise KubeConfigError if it does not exist (K14)."""
        loaded = read_kubeconfigs((path,))
        if loaded.missing or not path:
            hint = "Check the path."
            if path.startswith("~"):
                hint = "`~` is not expanded: use os.path.expanduser()."
            elif not path:
                hint = "The path is empty; pass None to load the default kubeconfig."
            raise KubeConfigError.from_problems(
                [Problem(f'kubeconfig "{path}" does not exist', path, hint=hint)]
            )
        return loaded

    def load_files(self, paths: Sequence[str], *, from_environment: bool = False) -> ClientConfig:
        """Load these files, merged, or the in-cluster configuration if they are empty (K66)."""
        loaded = self.read_files(paths, from_environment=from_environment)
        return self.resolve_or_in_cluster(loaded, paths)

    def read_files(self, paths: Sequence[str], *, from_environment: bool) -> LoadedFiles:
        """Read these files. Log a warning if KUBECONFIG lists them and none exists."""
        loaded = read_kubeconfigs(paths)
        if from_environment and loaded.missing and not loaded.configs:
            logger.warning("Config not found: %s", ", ".join(loaded.missing))
        return loaded

    def resolve_or_in_cluster(self, loaded: LoadedFiles, paths: Sequence[str]) -> ClientConfig:
        """Resolve files that have been read, or load the in-cluster configuration if they are empty (K66)."""
        if loaded.problems:
            raise KubeConfigError.from_problems(loaded.problems)
        config = self._resolve(
            merge_kubeconfigs(loaded.configs), paths=tuple(make_absolute(path) for path in paths if path)
        )
        can_use_in_cluster = self.allow_in_cluster and is_in_cluster(self.environment)
        if not can_use_in_cluster and isinstance(config, _EmptyConfig):
            raise config.error()
        if isinstance(config, _EmptyConfig) or (can_use_in_cluster and self._is_default(config)):
            logger.debug("no kubeconfig; using the in-cluster configuration")
            return self._with_origin(load_in_cluster(self.environment, self.overrides), None)
        return config

    def _is_default(self, config: ClientConfig) -> bool:
        """Return whether `config` is what the caller's defaults resolve to without a kubeconfig (K66)."""
        defaults = self.overrides.cluster_defaults
        if not defaults.server:
            return False
        try:
            loader = replace(self, overrides=Overrides(cluster_defaults=defaults))
            default = loader._resolve(Kubeconfig(), paths=())
        except KubeConfigError:
            return False
        # client-go's rest.Config, which it compares, has no namespace and no context name.
        return not isinstance(default, _EmptyConfig) and default == replace(
            config, namespace=default.namespace, context=default.context
        )

    def load_document(self, decoded: Kubeconfig | list[Problem]) -> ClientConfig:
        """Load a kubeconfig that did not come from a file, without the in-cluster fallback."""
        if not isinstance(decoded, Kubeconfig):
            raise KubeConfigError.from_problems(decoded, prefix="error loading config: ")
        return self.resolve(decoded, ())

    def resolve(self, kubeconfig: Kubeconfig, paths: tuple[str, ...]) -> ClientConfig:
        """Resolve a kubeconfig that was read from `paths`, without the in-cluster fallback."""
        config = self._resolve(kubeconfig, paths=paths)
        if isinstance(config, _EmptyConfig):
            raise config.error()
        return config

    def _resolve(self, config: Kubeconfig, *, paths: tuple[str, ...]) -> ClientConfig | _EmptyConfig:
        selected = select(config, self.overrides, cwd=get_working_directory())
        if isinstance(selected, Problem):
            raise KubeConfigError.from_problems([selected])
        cluster, user = selected.cluster, selected.user
        problems = [*selected.problems, *validate_user(selected.user_name, user, find_open_problem)]
        if cluster == NO_CLUSTER and not problems:
            return _EmptyConfig(_explain_empty_config(selected, config, paths))
        if cluster != NO_CLUSTER:
            problems += validate_cluster(selected.cluster_name, cluster, find_open_problem)
        elif not selected.problems:
            field = f'contexts["{selected.context_name}"].context.cluster' if selected.context_name else None
            hint = _explain_empty_config(selected, config, paths)
            problems.append(
                Problem("cluster has no server defined", selected.context.origin or None, field, hint)
            )
        server = _parse_server(selected.cluster_name, cluster) if cluster.server else ""
        if isinstance(server, Problem):
            problems.append(server)
        is_tls = isinstance(server, str) and uses_tls(server)
        problems += validate_tls_options(selected.cluster_name, cluster, selected.user_name, user, is_tls)
        token = _read_initial_token(selected.user_name, user) if is_tls else None
        if isinstance(token, Problem):
            problems.append(token)
        oidc = self._build_oidc(selected) if is_tls else None
        if isinstance(oidc, list):
            problems += oidc
        if problems or isinstance(server, Problem) or isinstance(token, Problem) or isinstance(oidc, list):
            raise KubeConfigError.from_problems(problems, prefix=INVALID)
        return self._build(selected, server, token, oidc, paths)

    def _build_oidc(self, selected: Selection) -> OidcConfig | list[Problem] | None:
        options, cwd = self.oidc_options or OidcOptions(), get_working_directory()
        oidc = build_oidc_config(
            selected.user_name, selected.user, options=options, cwd=cwd, find_open_problem=find_open_problem
        )
        if isinstance(oidc, OidcConfig) and oidc.path and not os.path.isfile(oidc.path):
            # A pipe, such as `<(process substitution)`: it cannot be read again or written to, and its name
            # may be reused.
            return replace(oidc, path=None, user=None)
        return oidc

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
        policy = self.plugin_policy
        if policy is None:
            # Without a plugin the kuberc is not read, so an invalid kuberc is no error.
            policy = self.load_policy(self.environment) if selected.user.exec else PluginPolicy.allow_all()
        config = build_client_config(
            selected,
            server=server,
            token=token,
            namespace=namespace or "default",
            options=self.exec_options or ExecOptions(),
            policy=policy,
            oidc=oidc,
        )
        origin = ConfigOrigin(
            paths=paths,
            context=selected.context_name,
            cluster=self.overrides.cluster,
            user=self.overrides.user,
            namespace=self.overrides.namespace,
            exec_options=self.exec_options,
            oidc_options=self.oidc_options,
            plugin_policy=policy if config.exec else self.plugin_policy,
        )
        can_reload = bool(paths) and all(map(is_shared_path, paths))
        return self._with_origin(config, origin if can_reload else None)

    def _with_origin(self, config: ClientConfig, origin: ConfigOrigin | None) -> ClientConfig:
        """Set the origin, unless entries were overridden: those overrides may be secrets."""
        overridden = (self.overrides.cluster_info, self.overrides.user_info, self.overrides.cluster_defaults)
        if overridden != (NO_CLUSTER, NO_USER, NO_CLUSTER):
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
    """Return `token`, else the content of the token file, without stripping it (K58-K60)."""
    if user.token or not user.token_file:
        return user.token or None
    try:
        return read_raw_token(user.token_file)
    except TokenFileError as error:
        hint = "Check the path, and that the program that writes the file has run."
        return Problem(str(error), user.origin or None, f'users["{name}"].user.tokenFile', hint)


def _explain_empty_config(selected: Selection, config: Kubeconfig, paths: Sequence[str]) -> str:
    context, cluster = selected.context_name, selected.cluster_name
    if cluster:
        return f'Context "{context}" refers to cluster "{cluster}", which does not exist.'
    if context:
        return f'Context "{context}" has no cluster.'
    if config.contexts:
        names = ", ".join(sorted(config.contexts)[:10])
        return f"No current-context is set. Pass context= or run: kubectl config use-context NAME ({names})"
    checked = ", ".join(path if os.path.exists(path) else f"{path} (does not exist)" for path in paths)
    return f"Set KUBECONFIG, or pass a path. Files checked: {checked or 'none'}."
