package binaries

import (
	"fmt"
	"io"
	"time"
)

// reportProgress writes that what has begun, then every interval how long it has lasted, until
// the returned function is called. That function returns when the last line is written.
// Lines only, no cursor movement: the reader may be a log file.
func reportProgress(log io.Writer, what string, every time.Duration) (done func()) {
	begun := time.Now()
	fmt.Fprintln(log, what)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				fmt.Fprintf(log, "%s, %s so far\n", what, time.Since(begun).Round(time.Second))
			case <-stop:
				return
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
	}
}
