package settler

import "github.com/eventquota/eventquota/store"

// Patch is the merge patch for a pending write.
func Patch(p *store.PendingWrite) map[string]any { return patch(p, "") }
