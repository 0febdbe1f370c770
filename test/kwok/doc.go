// Package kwok holds the webhook to what it is for in the storm that clusters have: kwok plays
// the kubelets of pods that the real scheduler places, a few Events about each of many.
package kwok
