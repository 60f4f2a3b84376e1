//go:build programs

// Knative Serving and Kourier, which is its ingress, as they are. A module of our own pins their versions and the checksums
// of all they are made of; what it names here is built from theirs.
package programs

import (
	_ "knative.dev/net-kourier/cmd/kourier"
	_ "knative.dev/serving/cmd/activator"
	_ "knative.dev/serving/cmd/autoscaler"
	_ "knative.dev/serving/cmd/controller"
	_ "knative.dev/serving/cmd/queue"
	_ "knative.dev/serving/cmd/webhook"
)
