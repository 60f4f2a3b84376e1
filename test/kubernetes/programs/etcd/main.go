// etcd as it is. A module of our own pins its version and the checksums of all it is made of.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
