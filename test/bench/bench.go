package main

import (
	"context"
	"fmt"
	"io"
	"os"
)

// bench measures all that o asks for, writes the figures and prints them.
func bench(ctx context.Context, o options, out io.Writer) (err error) {
	var api, handlers []figures
	if o.only != onlyHandlers {
		if api, err = benchAPI(ctx, o); err != nil {
			return err
		}
	}
	if o.only != onlyAPI {
		if handlers, err = benchHandlers(ctx, o); err != nil {
			return err
		}
	}
	all := medians(append(api, handlers...))
	if err := all.write(o.output); err != nil {
		return err
	}
	r := report{out: out, medians: all}
	if o.only != onlyHandlers {
		r.api(api, o)
	}
	if o.only != onlyAPI {
		r.handlers(o)
	}
	r.aims()
	fmt.Fprintf(out, "\nFigures are in %s.\n", o.output)
	if o.only == onlyHandlers {
		return nil
	}
	return r.complete()
}

// progress tells what has been measured so far.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}
