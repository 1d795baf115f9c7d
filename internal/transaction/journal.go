package transaction

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"strings"

	"wsu.windows/internal/reason"
	"wsu.windows/internal/securefile"
)

// Format is the version of the journal's format. A journal of a newer one is refused.
const Format = 1

// Entry is a step that was about to be done.
type Entry struct {
	Number int    `json:"number"`
	Step   string `json:"step"`
	Undo   Undo   `json:"undo"`
}

// Record is a journal that was found.
type Record struct {
	Format int    `json:"format"`
	ID     string `json:"id"`
	// Label says for people what the transaction does.
	Label   string  `json:"label"`
	Entries []Entry `json:"-"`
}

// Journal is the durable memory of one unfinished transaction. Every method returns only when its effect survives a power cut.
type Journal interface {
	Begin(id, label string) error
	Intend(Entry) error
	// Read gives nil where there is no journal.
	Read() (*Record, error)
	// Remove is no error where there is none.
	Remove() error
}

// FileJournal is a file of lines: a CRC-32 in hexadecimal, a space, a JSON object. The first line is the Record, each further one an
// Entry. A line is on the disk before its step begins, so a torn last line belongs to a step that was never begun and is left out.
type FileJournal struct {
	Path string
}

// Begin starts the journal. There must be none.
func (j *FileJournal) Begin(id, label string) error {
	if _, err := os.Stat(j.Path); err == nil {
		return fmt.Errorf("%s: an unfinished transaction is there", j.Path)
	}
	return securefile.Write(j.Path, line(Record{Format: Format, ID: id, Label: label}))
}

// Intend appends one entry and flushes it to the disk.
func (j *FileJournal) Intend(entry Entry) error {
	file, err := os.OpenFile(j.Path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = file.Write(line(entry))
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

func line(value any) []byte {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("journal: %v", err)) // plain structs of this package
	}
	return fmt.Appendf(nil, "%08x %s\n", crc32.ChecksumIEEE(raw), raw)
}

// Read gives what is whole. Damage before the last line is no torn write: it is an error with the reason StateUnreadable.
func (j *FileJournal) Read() (*Record, error) {
	raw, err := os.ReadFile(j.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	lines := bytes.SplitAfter(raw, []byte("\n"))
	record := &Record{}
	if err := parseLine(lines[0], record); err != nil {
		return nil, j.unreadable("line 1", err)
	}
	if record.Format > Format {
		return nil, j.unreadable("format", fmt.Errorf("it is %d and this release knows %d", record.Format, Format))
	}
	for i, text := range lines[1:] {
		var entry Entry
		if err := parseLine(text, &entry); err != nil {
			if i+2 >= len(lines) || isEmpty(lines[i+2:]) {
				break
			}
			return nil, j.unreadable(fmt.Sprintf("line %d", i+2), err)
		}
		record.Entries = append(record.Entries, entry)
	}
	return record, nil
}

func isEmpty(lines [][]byte) bool {
	for _, text := range lines {
		if len(text) > 0 {
			return false
		}
	}
	return true
}

func parseLine(text []byte, into any) error {
	body, whole := strings.CutSuffix(string(text), "\n")
	sum, object, found := strings.Cut(body, " ")
	if !whole || !found {
		return errors.New("it is cut off")
	}
	if sum != fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(object))) {
		return errors.New("its checksum is wrong")
	}
	return json.Unmarshal([]byte(object), into)
}

func (j *FileJournal) unreadable(where string, err error) error {
	return reason.New(reason.StateUnreadable, j.Path, where+": "+err.Error(), "")
}

// Remove ends the transaction.
func (j *FileJournal) Remove() error {
	if err := os.Remove(j.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
