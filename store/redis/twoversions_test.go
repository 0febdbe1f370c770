package redis_test

import (
	"context"
	"sync/atomic"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/eventquota/eventquota/store/redisclient"
	"github.com/eventquota/eventquota/test/storetest"
)

// newerVersion is the client of a replica of a newer version: each register that it writes has one more field.
type newerVersion struct {
	redisclient.Caller
	added *atomic.Int64
}

// headerBytes is the length of a value before its group, which begins with the format version and the header of a map.
const headerBytes = 33

// Call implements redisclient.Caller.
func (n newerVersion) Call(ctx context.Context, cmds ...goredis.Cmder) error {
	sent := make([]goredis.Cmder, len(cmds))
	for i, cmd := range cmds {
		sent[i] = cmd
		args := append([]any(nil), cmd.Args()...)
		keys, isScript := args[2].(int)
		if !isScript || args[3+keys] != "step" {
			continue
		}
		value := *args[3+keys+3].(*string)
		const newField = "\xa2" + "99" + "\x81\xa1" + "1" + "\xc0"           // 99: {1: nil}, in MessagePack
		if fields := value[headerBytes+1]; fields >= 0x80 && fields < 0x8f { // a map of up to 14 fields
			value = value[:headerBytes+1] + string([]byte{fields + 1}) + newField + value[headerBytes+2:]
			n.added.Add(1)
		}
		args[3+keys+3] = value
		sent[i] = goredis.NewCmd(ctx, args...)
	}
	err := n.Caller.Call(ctx, sent...)
	for i, cmd := range cmds {
		if cmd, ok := cmd.(*goredis.Cmd); ok && sent[i] != goredis.Cmder(cmd) {
			cmd.SetVal(sent[i].(*goredis.Cmd).Val())
			cmd.SetErr(sent[i].Err())
		}
	}
	return err
}

// TestReplicasOfTwoVersionsShareRegisters has two replicas of this version and one of a newer version, as during an update and its
// rollback. They read the registers of each other, and all counts are exact.
func TestReplicasOfTwoVersionsShareRegisters(t *testing.T) {
	on, added, seed := standalone(t), new(atomic.Int64), seeds.First
	fresh := func(t *testing.T) storetest.Subject {
		t.Helper()
		seed++
		r := on.replicas(t, 3, seed, false)
		r.clients[2].Caller = newerVersion{r.clients[2].Caller, added}
		return r
	}
	storetest.Simulate(t, storetest.Faults{}, *seeds, fresh)
	if added.Load() == 0 {
		t.Error("no register had a field of the newer version")
	}
}
