//go:build programs

// Kueue as it is. A module of our own pins its version and the checksums of all it is made of; what it names here is built
// from its own.
package programs

import _ "sigs.k8s.io/kueue/cmd/kueue"
