// Package certmanager runs cert-manager's own controllers with what manifests/ ships for
// it. It is a module of its own, so that their dependencies stay out of ours.
package certmanager
