package binaries

import (
	"fmt"
	"io"
	"time"
)

// reportProgress writes that something has begun, and then at every interval how long it has lasted, until done is
// called. done returns once the last line is written. It writes plain lines without cursor movement, because the
// output may be a log file.
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
