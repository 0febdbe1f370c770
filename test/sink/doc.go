// Package sink holds the sink to real collectors and stores of logs.
package sink
