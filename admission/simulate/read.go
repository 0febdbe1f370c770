package simulate

import (
	"cmp"
	"context"
	"errors"
	"io"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/simulate/recording"
)

const (
	// maxBrokenLines is how many broken entries are listed.
	maxBrokenLines = 10
	// maxErrorBytes bounds what is said of an entry or a condition, which may hold anything.
	maxErrorBytes = 200
	// batchBytes and batchEntries bound what is decoded at once.
	batchBytes, batchEntries = 256 << 10, 512
)

// Source is a recording that is to be read.
type Source struct {
	// Name is what reports call it.
	Name string
	// Size is how many bytes it has; -1 where that is not known.
	Size int64
	// Open opens it. It is called once.
	Open func() (io.ReadCloser, error)
	// FromDirectory says that it was found in a directory: it is passed over if it has nothing about Events.
	FromDirectory bool
}

// NewSource is a source that is open already.
func NewSource(name string, in io.Reader) Source {
	return Source{Name: name, Size: -1, Open: func() (io.ReadCloser, error) { return io.NopCloser(in), nil }}
}

// read reads a source: one goroutine splits it into entries, one for each processor decodes them, and one adds them in order.
func (t *Trace) read(ctx context.Context, s Source) error {
	in, err := s.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	before := t.Input.clone()
	file, err := t.readFile(ctx, s.Name, in)
	_, unreadable := errors.AsType[recording.UnreadableError](err)
	if s.FromDirectory && (err == nil || unreadable) && len(file.Kinds) == 0 {
		t.Input = before
		t.Input.PassedOver++
		return nil
	}
	t.Input.Files = append(t.Input.Files, file)
	return err
}

func (t *Trace) readFile(ctx context.Context, name string, in io.Reader) (File, error) {
	group, ctx := errgroup.WithContext(ctx)
	processors := runtime.GOMAXPROCS(0)
	batches := batching{ctx: ctx, decoder: t.decoder, queue: make(chan *batch, processors), free: make(chan *batch, processors+2)}
	batches.decoder.file = len(t.Input.Files)
	var form recording.Form
	group.Go(func() (err error) {
		defer close(batches.queue)
		if form, err = recording.Read(ctx, in, batches.add); err == nil {
			err = batches.send()
		}
		return err
	})
	file := File{Name: name}
	group.Go(func() error {
		for b := range batches.queue {
			<-b.done
			for i := range b.decoded {
				if err := t.add(&file, &b.decoded[i]); err != nil {
					return err
				}
			}
			b.free(batches.free)
		}
		return nil
	})
	err := group.Wait()
	file.Encodings, file.Form, file.Part, file.Remaining = form.Encodings, form.Name, form.Part, form.Remaining
	return file, err
}

// batching puts entries together, and has them decoded.
type batching struct {
	ctx     context.Context //nolint:containedctx // it lives for one file
	decoder decoder
	queue   chan *batch // in the order of the entries
	free    chan *batch // those of which the memory is used again
	next    *batch
}

func (b *batching) add(e recording.Entry) error {
	if b.next == nil {
		select {
		case b.next = <-b.free:
		default:
			b.next = &batch{}
		}
		b.next.done = make(chan struct{})
	}
	b.next.take(e)
	if len(b.next.entries) < batchEntries && len(b.next.texts) < batchBytes {
		return nil
	}
	return b.send()
}

// send has the entries decoded that are put together, as many batches at once as the queue holds.
func (b *batching) send() error {
	if b.next == nil {
		return nil
	}
	select {
	case b.queue <- b.next:
		go b.next.decode(&b.decoder)
		b.next = nil
		return nil
	case <-b.ctx.Done():
		return b.ctx.Err()
	}
}

// batch is entries that are decoded at once.
type batch struct {
	entries []recording.Entry
	texts   []byte // of the entries
	decoded []decoded
	done    chan struct{} // closed once decoded is complete
	scratch scratch
}

// take takes an entry, with a copy of its text.
func (b *batch) take(e recording.Entry) {
	from := len(b.texts)
	b.texts = append(b.texts, e.Text...)
	e.Text = b.texts[from:]
	b.entries = append(b.entries, e)
}

func (b *batch) decode(d *decoder) {
	defer close(b.done)
	for i := range b.entries {
		b.decoded = d.entry(b.decoded, &b.entries[i], 0, &b.scratch)
	}
}

// free empties b, of which nothing is used any more, and keeps its memory, unless it has had to grow for long entries.
func (b *batch) free(to chan<- *batch) {
	if cap(b.texts) > 2*batchBytes || cap(b.scratch.records) > 2*batchBytes {
		return
	}
	clear(b.decoded)
	b.entries, b.texts, b.decoded = b.entries[:0], b.texts[:0], b.decoded[:0]
	b.scratch.writes.used, b.scratch.records = 0, b.scratch.records[:0]
	select {
	case to <- b:
	default:
	}
}

// add adds a decoded entry to the trace. It fails only when the temporary file does.
func (t *Trace) add(f *File, d *decoded) error {
	in := &t.Input
	in.Entries++
	f.kind(d.kind)
	if _, isUnknown := errors.AsType[unknown](d.err); isUnknown || d.err == nil {
		d.err = cmp.Or(t.checkDuplicate(d), d.err)
	}
	if d.err != nil {
		in.addSkipped(f.Name, d.number, d.err)
		return nil //nolint:nilerr // it is counted
	}
	w := d.write
	offset, err := t.spool.write(d.record)
	if err != nil {
		return err
	}
	t.index = append(t.index, place{w.At.UnixNano(), offset})
	in.Fewest += Fewest.steps(w)
	in.Most += Most.steps(w)
	in.Users = in.Users || w.User.Username != ""
	if d.shifted {
		in.Shifted++
	}
	if in.First.IsZero() || w.At.Before(in.First) {
		in.First = w.At.UTC()
	}
	if w.Last.After(in.Last) {
		in.Last = w.Last.UTC()
	}
	return nil
}

// addSkipped counts an entry that is no write, or of which too little is known, or that cannot be read.
func (in *Input) addSkipped(file string, number int64, err error) {
	if why, ok := errors.AsType[skipped](err); ok {
		in.Skipped[string(why)]++
		return
	}
	if why, ok := errors.AsType[unknown](err); ok {
		in.Unknown[string(why)]++
		return
	}
	in.Broken++
	if len(in.BrokenLines) < maxBrokenLines {
		in.BrokenLines = append(in.BrokenLines, Broken{File: file, Line: number, Error: admission.Truncate(err.Error(), maxErrorBytes)})
	}
}
