package admission

import "context"

// AllFree waits until no review has a place any more, for as long as ctx.
func (p *Places) AllFree(ctx context.Context) bool {
	err := p.free.Acquire(ctx, p.all)
	if err == nil {
		p.free.Release(p.all)
	}
	return err == nil
}
