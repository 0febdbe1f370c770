package top

import (
	"context"
	"time"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/store/redisclient"
)

// readBusiest reads once what is busiest.
type readBusiest func(context.Context) (busiest.Sum, error)

// reader reads from where the flags say. closes ends what it holds.
func (o *options) reader() (read readBusiest, closes func(), err error) {
	if o.Replicas.Endpoint.IsSet() {
		return func(ctx context.Context) (s busiest.Sum, err error) {
			err = o.Replicas.Endpoint.Get(ctx, "/busiest", nil, &s)
			return s, err
		}, func() {}, nil
	}
	client, err := redisclient.New(*o.Replicas.Redis)
	if err != nil {
		return nil, nil, err
	}
	shared := busiest.NewRedis(client, o.Replicas.RedisPrefix)
	return func(ctx context.Context) (busiest.Sum, error) {
		all, err := shared.All(ctx)
		return busiest.Add(all), err
	}, func() { _ = client.Close() }, nil
}

// look is what reading gave.
type look struct {
	sum busiest.Sum
	err error
}

// lookEvery reads from time to time until ctx ends.
func lookEvery(ctx context.Context, read readBusiest, every time.Duration) <-chan look {
	all := make(chan look)
	go func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			sum, err := read(ctx)
			select {
			case <-ctx.Done():
				return
			case all <- look{sum, err}:
			}
		}
	}()
	return all
}
