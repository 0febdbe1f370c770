// Package kwok tests the webhook in a storm as clusters have them, with a few Events about each of many pods. The real scheduler places the
// pods, and kwok simulates the kubelets.
package kwok
