package recording

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// maxEncodings is the maximum number of nested encodings.
const maxEncodings = 3

// compression is a compression format, detected by the first bytes of a file.
type compression struct {
	name, magic string
	// open decompresses the input. If it is nil, the user needs the named program.
	open    func(io.Reader) (io.Reader, error)
	program string
}

func compressions() []compression {
	return []compression{
		{name: "gzip", magic: "\x1f\x8b", open: func(in io.Reader) (io.Reader, error) { return gzip.NewReader(in) }},
		{name: "zstd", magic: "\x28\xb5\x2f\xfd", open: func(in io.Reader) (io.Reader, error) {
			return zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxWindow))
		}},
		{name: "bzip2", magic: "BZh", open: func(in io.Reader) (io.Reader, error) { return bzip2.NewReader(in), nil }},
		{name: "xz", magic: "\xfd7zXZ\x00", program: "xz -dc"},
		{name: "zip", magic: "PK\x03\x04", program: "unzip -p"},
		{name: "tar", magic: "", program: "tar -xOf"},
	}
}

// maxWindow bounds the memory of the zstd decoder for its window.
const maxWindow = 128 << 20

// tarMagic is at tarOffset in the first header of a tar archive.
const tarMagic, tarOffset = "ustar", 257

// unpack decompresses the input and decodes UTF-16, as detected by the first bytes.
func (r *reader) unpack() error {
	r.unpacked = bufio.NewReaderSize(r.source, peekBytes)
	for range maxEncodings {
		head, _ := r.unpacked.Peek(tarOffset + len(tarMagic)) // a later read returns the error
		p := detectCompression(head)
		if p == nil {
			break
		}
		if p.open == nil {
			return UnreadableError(fmt.Sprintf("it must be unpacked from %s: %s FILE | eventquota simulate -", p.name, p.program))
		}
		unpacked, err := p.open(r.unpacked)
		if err != nil {
			return UnreadableError(fmt.Sprintf("it is a damaged %s file", p.name))
		}
		r.form.Encodings = append(r.form.Encodings, p.name)
		r.unpacked = bufio.NewReaderSize(unpacked, peekBytes)
	}
	return r.toUTF8()
}

func detectCompression(head []byte) *compression {
	all := compressions()
	for i := range all {
		p := &all[i]
		if p.magic != "" && bytes.HasPrefix(head, []byte(p.magic)) || p.name == "tar" && len(head) > tarOffset && bytes.HasPrefix(head[tarOffset:], []byte(tarMagic)) {
			return p
		}
	}
	return nil
}

// toUTF8 decodes UTF-16, with or without a byte order mark, and removes the byte order mark of UTF-8.
func (r *reader) toUTF8() error {
	head, _ := r.unpacked.Peek(4)
	endian := unicode.LittleEndian
	switch {
	case bytes.HasPrefix(head, []byte("\xef\xbb\xbf")):
		_, err := r.unpacked.Discard(3)
		return err
	case bytes.HasPrefix(head, []byte("\xff\xfe")), len(head) >= 2 && head[0] != 0 && head[1] == 0:
	case bytes.HasPrefix(head, []byte("\xfe\xff")), len(head) >= 2 && head[0] == 0 && head[1] != 0:
		endian = unicode.BigEndian
	default:
		return nil
	}
	r.form.Encodings = append(r.form.Encodings, "UTF-16")
	decoder := unicode.UTF16(endian, unicode.UseBOM).NewDecoder()
	if head[0] == 0 || head[1] == 0 {
		decoder = unicode.UTF16(endian, unicode.IgnoreBOM).NewDecoder()
	}
	r.unpacked = bufio.NewReaderSize(transform.NewReader(r.unpacked, decoder), peekBytes)
	return nil
}
