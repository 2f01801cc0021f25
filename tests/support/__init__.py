"""Helpers that several test directories share.

Clients and callers
    clients         ClientVariant: each of {httpx, httpx2} x {sync, asyncio, trio}, with httpx's transport or
                    DirectTransport; the fixture `variant` runs a test with each of them
    callers         a thousand concurrent callers in threads and event loops, released by one barrier
    processes, dask_driver, prefork_app, gunicorn
                    programs that use kubeauth in several processes

Plugins and credentials
    issuer          an issuer of tokens and certificates that expire within seconds
    shell_plugin    an exec plugin with constant output, which starts faster than PluginScript
    misbehaving     exec plugins that hang, crash, or print invalid output
    scripted        a CredentialProvider without a process
    oidc_issuer     an OpenID Connect issuer; `oidc` has a kubeconfig and an API server for it

Servers
    raw_server      sends the bytes that a test specifies; h2_server speaks HTTP/2
    proxy_servers   http, https and socks5 proxies; proxy_cases is the NO_PROXY table
    recording       records the traffic between two programs

Checks
    cases           each_case: a table of cases in one test, which lists all cases that fail
    residue         descriptors, threads, processes and files that a test must not leave behind
    leaks           a secret, and assert_no_leak: no error, traceback or log shows it
    idle_threads    waits until other threads are blocked
    waiters         waits until callers wait for the plugin that runs
    frames          which frames of a traceback are kubeauth's
    observers       an Observer that does nothing
    kubeconfigs     short kubeconfig documents
    blocks          the code blocks of the documentation

The environment
    environment     the same variables, home and temporary directory on every machine
    before_imports  what must be set before kubeauth is imported
    ports           free ports for other programs
"""
