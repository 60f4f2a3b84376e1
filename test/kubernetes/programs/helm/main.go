// Helm as it is. A module of our own pins its version and the checksums of all it is made of.
package main

import (
	"os"

	"helm.sh/helm/v4/pkg/cmd"
)

func main() {
	command, err := cmd.NewRootCmd(os.Stdout, os.Args[1:], cmd.SetupLogging)
	if err == nil {
		err = command.Execute()
	}
	if err != nil {
		os.Exit(1)
	}
}
