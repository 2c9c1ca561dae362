/* Generated from the transition table by `python -m tools.models`; not to be edited.
 * Several workers of one fleet, a client and the clocks on one task of the gate.
 */

mtype:state = { CLAIMED, DONE, GRANTED, INPUT, INTENT, PENDING, RESUBMITTING, WAITING };
mtype:event = { ALLOWED, APPROVED, BACKEND_ENDED, CANCEL, CHAIN_REQUESTED, CHAIN_REQUESTED_AT_BOUND, DUE, EXECUTION_OVERDUE, EXPIRE, FAILED_CLOSED, HANDLE_STORED, INPUT_ASKED, INPUT_SETTLED, ORPHANED, POLICY_DENIED, RETRY_LATER, SUBMISSION_ABANDONED, SUBMISSION_REFUSED, TOOL_RETURNED, TOOL_SILENT, WORKER_LOST };
mtype:state state = INTENT;
byte claims = 0;
byte calls = 0;

active [2] proctype worker() {
  mtype:state seen, next;
  mtype:event happened;
  bool won;
  do
  :: atomic {
     seen = state;
     if
     :: seen == CLAIMED -> happened = EXECUTION_OVERDUE; next = DONE
     :: seen == CLAIMED -> happened = TOOL_RETURNED; next = DONE
     :: seen == CLAIMED -> happened = TOOL_SILENT; next = DONE
     :: seen == CLAIMED -> happened = WORKER_LOST; next = DONE
     :: seen == GRANTED -> happened = ALLOWED; next = CLAIMED
     :: seen == GRANTED -> happened = CANCEL; next = DONE
     :: seen == GRANTED -> happened = CHAIN_REQUESTED; next = RESUBMITTING
     :: seen == GRANTED -> happened = CHAIN_REQUESTED_AT_BOUND; next = DONE
     :: seen == GRANTED -> happened = EXPIRE; next = DONE
     :: seen == GRANTED -> happened = FAILED_CLOSED; next = DONE
     :: seen == GRANTED -> happened = POLICY_DENIED; next = DONE
     :: seen == GRANTED -> happened = RETRY_LATER; next = WAITING
     :: seen == INPUT -> happened = APPROVED; next = GRANTED
     :: seen == INPUT -> happened = BACKEND_ENDED; next = DONE
     :: seen == INPUT -> happened = CANCEL; next = DONE
     :: seen == INPUT -> happened = EXPIRE; next = DONE
     :: seen == INPUT -> happened = INPUT_SETTLED; next = PENDING
     :: seen == INTENT -> happened = HANDLE_STORED; next = PENDING
     :: seen == INTENT -> happened = ORPHANED; next = DONE
     :: seen == INTENT -> happened = SUBMISSION_REFUSED; next = DONE
     :: seen == PENDING -> happened = APPROVED; next = GRANTED
     :: seen == PENDING -> happened = BACKEND_ENDED; next = DONE
     :: seen == PENDING -> happened = CANCEL; next = DONE
     :: seen == PENDING -> happened = EXPIRE; next = DONE
     :: seen == PENDING -> happened = INPUT_ASKED; next = INPUT
     :: seen == RESUBMITTING -> happened = CANCEL; next = DONE
     :: seen == RESUBMITTING -> happened = EXPIRE; next = DONE
     :: seen == RESUBMITTING -> happened = HANDLE_STORED; next = PENDING
     :: seen == RESUBMITTING -> happened = SUBMISSION_ABANDONED; next = DONE
     :: seen == RESUBMITTING -> happened = SUBMISSION_REFUSED; next = DONE
     :: seen == WAITING -> happened = CANCEL; next = DONE
     :: seen == WAITING -> happened = DUE; next = GRANTED
     :: seen == WAITING -> happened = EXPIRE; next = DONE
     :: seen == DONE -> break
     fi
     };
     atomic {
       won = (state == seen);
       if
       :: won ->
          state = next;
          if
          :: happened == ALLOWED -> claims++
          :: else -> skip
          fi
       :: else -> skip
       fi
     };
     if :: won && happened == ALLOWED -> calls++ :: else -> skip fi;
     won = false; seen = 0; next = 0; happened = 0
  od
}

ltl done_is_final { [] ((state == DONE) -> [] (state == DONE)) }
ltl at_most_one_claim { [] (claims <= 1) }
ltl at_most_one_call { [] (calls <= claims) }
ltl no_call_after_another_end { [] (((state == DONE) && (claims == 0)) -> [] (calls == 0)) }
ltl claimed_tasks_only_end { [] ((state == CLAIMED) -> [] ((state == CLAIMED) || (state == DONE))) }
