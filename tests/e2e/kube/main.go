// One binary with the three programs the end-to-end tests run: they share nearly
// all of their code, so one link takes the time and the disk of one.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"

	_ "k8s.io/client-go/plugin/pkg/client/auth"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

func main() {
	name := filepath.Base(os.Args[0])
	if name != "kubectl" { // a link of that name is kubectl
		if len(os.Args) < 2 {
			fmt.Fprintln(os.Stderr, "usage: kube {apiserver|controller-manager|kubectl} ...")
			os.Exit(2)
		}
		name = os.Args[1]
		os.Args = append([]string{name}, os.Args[2:]...)
	}
	var command *cobra.Command
	switch name {
	case "apiserver":
		command = apiserver.NewAPIServerCommand()
	case "controller-manager":
		command = controllers.NewControllerManagerCommand()
	case "kubectl":
		command = cmd.NewDefaultKubectlCommand()
		if err := cli.RunNoErrOutput(command); err != nil {
			util.CheckErr(err)
		}
		return
	default:
		fmt.Fprintf(os.Stderr, "kube: no program %q\n", name)
		os.Exit(2)
	}
	os.Exit(cli.Run(command))
}
