#!/bin/sh
# Says of the cluster job with the id $1 whether it is running (or waiting), a success, or failed. This asks Slurm, which
# forgets a job some minutes after its end.
case $(squeue --noheader --states=all --format=%T --jobs="$1" 2>&1) in
COMPLETED) echo success ;;
BOOT_FAIL | CANCELLED | DEADLINE | FAILED | NODE_FAIL | OUT_OF_MEMORY | PREEMPTED | TIMEOUT) echo failed ;;
*"Invalid job id"*) echo failed ;;
*) echo running ;;
esac
