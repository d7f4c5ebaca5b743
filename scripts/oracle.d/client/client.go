// Package client is what the programs that loadgen measures as real clients share: the dialogue over standard input and
// output. It uses the standard library alone, so that it adds nothing to what a client links.
//
// The program connects and writes `{"ready":"PROGRAM VERSION"}`. Then it reads commands, one a line:
//
//	list     lists everything, keeps it, and writes a Listed as one line of JSON
//	check    writes what the latest list held: a Checked, the objects, and `{"freed":true}` once it has let go of them
//
// It ends with its standard input. A command that fails writes `{"error":"…"}` and the program goes on.
//
// An object is 16 bytes, little-endian, then its bytes: length of the key (4), length of the value (4), revision that
// wrote it (8), key, value.
package client

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"
)

// Listed says what a list was, by its client's own word.
type Listed struct {
	// From the call until every object is there, decoded.
	Nanoseconds int64 `json:"ns"`
	Objects     int64 `json:"objects"`
	Revision    int64 `json:"revision"`
	// Messages, pages or events with objects.
	Chunks int64 `json:"chunks"`
	// `count` of the response, which etcd has.
	Count *int64 `json:"count,omitempty"`
	// Whether the last response says that more follows.
	More bool `json:"more"`
}

// Checked announces objects.
type Checked struct {
	Objects int `json:"objects"`
	// Of all responses of the list, protocol framing excluded.
	Bytes int64 `json:"bytes"`
}

// Object is one of a list, as it is stored.
type Object struct {
	Key, Value []byte
	Revision   int64
}

// Lister is a connected client.
type Lister interface {
	// List lists everything, and keeps it until Forget.
	List() (Listed, error)
	// Bytes of the responses of the latest list.
	Bytes() int64
	// Objects of the latest list, in its order.
	Objects() (n int, each func(yield func(Object) error) error)
	// Forget lets go of the latest list.
	Forget()
}

// Run says that it is ready, and does what it is told until its standard input ends.
func Run(about string, lister Lister) error {
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	say := func(what any) error {
		if err := json.NewEncoder(out).Encode(what); err != nil {
			return err
		}
		return out.Flush()
	}
	if err := say(map[string]string{"ready": about}); err != nil {
		return err
	}
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		var err error
		switch command := strings.TrimSpace(commands.Text()); command {
		case "list":
			err = list(lister, say)
		case "check":
			err = check(lister, out, say)
		default:
			err = say(map[string]string{"error": "unknown command " + command})
		}
		if err != nil {
			return err
		}
	}
	return commands.Err()
}

func list(lister Lister, say func(any) error) error {
	listed, err := lister.List()
	if err != nil {
		return say(map[string]string{"error": err.Error()})
	}
	return say(listed)
}

func check(lister Lister, out io.Writer, say func(any) error) error {
	objects, each := lister.Objects()
	if err := say(Checked{Objects: objects, Bytes: lister.Bytes()}); err != nil {
		return err
	}
	var head [16]byte
	err := each(func(object Object) error {
		binary.LittleEndian.PutUint32(head[0:], uint32(len(object.Key)))
		binary.LittleEndian.PutUint32(head[4:], uint32(len(object.Value)))
		binary.LittleEndian.PutUint64(head[8:], uint64(object.Revision))
		for _, part := range [][]byte{head[:], object.Key, object.Value} {
			if _, err := out.Write(part); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		// Objects were announced that do not come: only an end says so.
		return fmt.Errorf("an object of the list: %w", err)
	}
	lister.Forget()
	// The next list begins with an empty heap, as that of a program that has just started does.
	debug.FreeOSMemory()
	return say(map[string]bool{"freed": true})
}

// Since is the time of a list that began then.
func Since(begun time.Time) int64 { return time.Since(begun).Nanoseconds() }
