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
	// maxErrorBytes bounds the length of an error, which may quote arbitrary input.
	maxErrorBytes = 200
	// batchBytes and batchEntries bound the size of a batch.
	batchBytes, batchEntries = 256 << 10, 512
)

// Source is a recording to read.
type Source struct {
	// Name is its name in reports.
	Name string
	// Size is in bytes, or -1 if unknown.
	Size int64
	// Open opens the recording. Read calls it once.
	Open func() (io.ReadCloser, error)
	// FromDirectory reports that it was found in a directory. It is then skipped if it contains nothing about Events.
	FromDirectory bool
}

// NewSource returns a Source that reads from in.
func NewSource(name string, in io.Reader) Source {
	return Source{Name: name, Size: -1, Open: func() (io.ReadCloser, error) { return io.NopCloser(in), nil }}
}

// read reads a source. One goroutine splits it into entries, one per CPU decodes them, and one adds them in order.
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
		t.Input.SkippedFiles++
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

// batching collects entries into batches for the decoders.
type batching struct {
	ctx     context.Context //nolint:containedctx // it lives for one file
	decoder decoder
	queue   chan *batch // in the order of the entries
	free    chan *batch // for reuse
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

// send passes the current batch to a decoder. It blocks while the queue is full.
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

// batch is a group of entries that one goroutine decodes.
type batch struct {
	entries []recording.Entry
	texts   []byte // of the entries
	decoded []decoded
	done    chan struct{} // closed once decoded is complete
	scratch scratch
}

// take adds an entry with a copy of its text.
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

// free empties b for reuse. It discards memory that grew beyond the usual size because of long entries.
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

// add adds a decoded entry to the trace. It fails only if the temporary file cannot be written or read.
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
	if w.Verb.deletes() {
		return nil
	}
	in.Fewest += Fewest.steps(w)
	in.Most += Most.steps(w)
	in.Users = in.Users || w.User.Username != ""
	if d.timesShifted {
		in.TimesShifted++
	}
	if in.First.IsZero() || w.At.Before(in.First) {
		in.First = w.At.UTC()
	}
	if w.Last.After(in.Last) {
		in.Last = w.Last.UTC()
	}
	return nil
}

// addSkipped counts an entry that is not a simulated write: skipped, unknown or broken.
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
