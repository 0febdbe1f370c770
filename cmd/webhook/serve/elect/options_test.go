package elect

import (
	"os"
	"path/filepath"
	"testing"
)

func TestTheLeaseIsInThePodsNamespace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "namespace")
	if err := os.WriteFile(file, []byte("quotas\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ flag, file, want string }{
		{"", file, "quotas"},
		{"", "/nowhere", "eventquota-system"},
		{"mine", file, "mine"},
	} {
		o := Options{Namespace: tt.flag}
		if got := o.namespace(tt.file); got != tt.want {
			t.Errorf("flag %q and file %q: namespace %q, want %q", tt.flag, tt.file, got, tt.want)
		}
	}
}
