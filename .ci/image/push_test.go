package main

import (
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func TestPushedIndexIsThatOfTheImage(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	index, err := random.Index(512, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	want, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	o := options{Repository: strings.TrimPrefix(server.URL, "http://") + "/eventquota", Version: "v1.2.3"}
	var out bytes.Buffer
	if err := (&result{index: index}).push(t.Context(), o, &out); err != nil {
		t.Fatal(err)
	}
	if printed := o.Repository + ":v1.2.3@" + want.String() + "\n"; out.String() != printed {
		t.Errorf("printed %q, want %q", out.String(), printed)
	}
	tag, err := name.NewTag(o.Repository + ":v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Index(tag)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := pulled.IndexManifest()
	if err != nil || len(manifest.Manifests) != 2 {
		t.Errorf("the registry has an index of %d images, want 2: %v", len(manifest.Manifests), err)
	}
	if got, err := pulled.Digest(); err != nil || got != want {
		t.Errorf("the registry has %s, want %s: %v", got, want, err)
	}
}
