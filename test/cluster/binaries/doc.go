// Package binaries builds etcd, kube-apiserver, kube-scheduler, kube-controller-manager and kubectl from their Go
// modules. It caches them in the user's cache directory, so that every test uses these programs without a download,
// and only the first run on a machine has to build.
//
// It builds only the programs that a caller names. A cold build takes some minutes.
package binaries
