// Command oracle prints, as JSON, what client-go makes of the kubeconfig that the
// environment and the flags name. Tests compare kubeauth with it, field by field.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"

	"golang.org/x/net/http/httpproxy"
	"k8s.io/apimachinery/pkg/runtime"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/transport"
	"sigs.k8s.io/yaml"
)

func main() {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	overrides := &clientcmd.ConfigOverrides{}
	flag.StringVar(&rules.ExplicitPath, "kubeconfig", "", "explicit path")
	flag.StringVar(&overrides.CurrentContext, "context", "", "")
	flag.StringVar(&overrides.Context.Cluster, "cluster", "", "")
	flag.StringVar(&overrides.Context.AuthInfo, "user", "", "")
	flag.StringVar(&overrides.Context.Namespace, "namespace", "", "")
	proxyFor := flag.String("proxy-for", "", "print only the proxy that Go takes for this URL")
	readYAML := flag.Bool("yaml", false, "read a JSON list of base64 YAML documents, print each as JSON")
	matchImages := flag.Bool("images", false, "read patterns, images and names, print what the kubelet makes of them")
	flag.Parse()

	if *readYAML {
		emit(convert(os.Stdin))
		return
	}
	if *matchImages {
		emit(images(os.Stdin))
		return
	}
	if *proxyFor != "" {
		target, err := url.Parse(*proxyFor)
		if err != nil {
			emit(map[string]any{"error": err.Error()})
			return
		}
		proxy, err := httpproxy.FromEnvironment().ProxyFunc()(target)
		if err != nil || proxy == nil {
			emit(map[string]any{"proxy": nil})
			return
		}
		emit(map[string]any{"proxy": proxy.String()})
		return
	}

	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	config, err := loader.ClientConfig()
	if err != nil {
		emit(map[string]any{"error": err.Error()})
		return
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		emit(map[string]any{"error": err.Error()})
		return
	}
	emit(describe(config, namespace))
}

func describe(c *rest.Config, namespace string) map[string]any {
	out := map[string]any{
		"server": c.Host, "namespace": namespace,
		"ca_data": c.CAData, "ca_file": c.CAFile, "insecure_skip_tls_verify": c.Insecure,
		"tls_server_name": c.ServerName, "disable_compression": c.DisableCompression,
		"token": c.BearerToken, "token_file": c.BearerTokenFile,
		"username": c.Username, "password": c.Password,
		"client_cert_data": c.CertData, "client_key_data": c.KeyData,
		"client_cert_file": c.CertFile, "client_key_file": c.KeyFile,
		"impersonate": map[string]any{"user": c.Impersonate.UserName, "uid": c.Impersonate.UID,
			"groups": c.Impersonate.Groups, "extra": c.Impersonate.Extra},
	}
	if c.Proxy != nil {
		request, _ := http.NewRequest(http.MethodGet, "https://host", nil)
		if proxy, err := c.Proxy(request); err == nil && proxy != nil {
			out["proxy_url"] = proxy.String()
		}
	}
	if c.AuthProvider != nil {
		out["auth_provider"] = c.AuthProvider.Name
	}
	if e := c.ExecProvider; e != nil {
		exec := map[string]any{"command": e.Command, "args": e.Args, "env": e.Env, "api_version": e.APIVersion,
			"install_hint": e.InstallHint, "provide_cluster_info": e.ProvideClusterInfo,
			"interactive_mode": e.InteractiveMode}
		if unknown, ok := e.Config.(*runtime.Unknown); ok && unknown != nil {
			exec["cluster_config"] = json.RawMessage(unknown.Raw)
		}
		out["exec"] = exec
	}
	// What would still be refused when the HTTP stack is built (TLS files, K39, K43, X1).
	if tc, err := c.TransportConfig(); err != nil {
		out["build_error"] = err.Error()
	} else if _, err := transport.New(tc); err != nil {
		out["build_error"] = err.Error()
	}
	return out
}

// convert turns YAML into JSON as the decoder of a kubeconfig does; a null stands for a refusal.
func convert(from io.Reader) []json.RawMessage {
	var documents [][]byte
	if err := json.NewDecoder(from).Decode(&documents); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	converted := make([]json.RawMessage, len(documents))
	for i, document := range documents {
		if found, err := yaml.YAMLToJSON(document); err == nil {
			converted[i] = append(append([]byte{'['}, found...), ']')
		}
	}
	return converted
}

func emit(value any) {
	if err := json.NewEncoder(os.Stdout).Encode(value); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
