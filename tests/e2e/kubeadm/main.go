// kubeadm itself; and `kubeadm discover`, the part of `kubeadm join` that finds a
// cluster, alone: the rest of a join needs a machine that becomes a node.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/kubernetes/cmd/kubeadm/app"
	"k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	"k8s.io/kubernetes/cmd/kubeadm/app/discovery"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/errors"
)

// What to discover, as JSON on stdin.
type asked struct {
	Endpoint, Token, File string
	Pins                  []string
	Seconds               float64
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "discover" {
		if err := discover(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	errors.HandleError(app.Run())
}

func discover() error {
	var given asked
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		return err
	}
	join := &kubeadm.JoinConfiguration{
		Discovery: kubeadm.Discovery{TLSBootstrapToken: given.Token},
		Timeouts: &kubeadm.Timeouts{
			Discovery: &metav1.Duration{Duration: time.Duration(given.Seconds * float64(time.Second))},
		},
	}
	if given.File != "" {
		join.Discovery.File = &kubeadm.FileDiscovery{KubeConfigPath: given.File}
	} else {
		join.Discovery.BootstrapToken = &kubeadm.BootstrapTokenDiscovery{
			Token:                    given.Token,
			APIServerEndpoint:        given.Endpoint,
			CACertHashes:             given.Pins,
			UnsafeSkipCAVerification: len(given.Pins) == 0,
		}
	}
	config, err := discovery.For(nil, join)
	if err != nil {
		return err
	}
	text, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(text)
	return err
}
